"""Direct preference optimization on guesses: make the better of two replies to the same prompt likelier.

    for round in rounds:
        games = play(policy)
        for board in some boards of the games:
            replies = more replies of the policy to the same prompt
            pair the best with those that are worse by a margin
        fit(policy, pairs, PreferenceLoss())     # the reference is the model that the first round begins with

The policy plays, and its boards become prompts. More replies are sampled at each board, and the solver values their
guesses by regret. Pairs hold the token ids as sampled.

Source: DPO, arXiv:2305.18290.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from wordle_rl.config.stages import DPOSettings
from wordle_rl.game import Game, Turn
from wordle_rl.policy.base import Completion, Request
from wordle_rl.prompt import Guess
from wordle_rl.solver import turn_regret
from wordle_rl.train.example import Example
from wordle_rl.train.loss import PreferenceLoss
from wordle_rl.train.play_loop import Item, Stage
from wordle_rl.train.round_method import Numbers, Round, RoundMethod, board_label, names_strict, record_labels
from wordle_rl.train.scored_games import Board, boards_of


@dataclass(frozen=True, slots=True)
class Reply:
    """A sampled reply to a board. A higher `value` is better; `sound`: it is complete and the rules allow its guess."""

    token_ids: tuple[int, ...]
    value: float
    sound: bool
    text: str = ""
    guess: str | None = None


class DPO(RoundMethod):
    """Learn pairs of replies to the boards of the policy's own games."""

    def __init__(self, stage: Stage, settings: DPOSettings) -> None:
        super().__init__(stage, settings)
        self._setup, self._dpo = stage.setup, settings
        self.loss = PreferenceLoss(settings.beta)

    def choose(self, played: Round) -> tuple[list[Item], Numbers]:
        """Return pairs of replies, and how many boards and pairs there were."""
        boards = self._sampled(played)
        pairs, margins, labels = [], [], []
        split = self._setup.context.split
        for board, replies in boards:
            # Strict words must never be learnt, neither from a board nor from a reply.
            replies = [reply for reply in replies if not split.strict_words_in(reply.guess, reply.text)]
            for better, worse in pairs_of(replies, self._dpo.margin, self._dpo.pairs_per_board):
                pairs.append([_example(board, reply) for reply in (better, worse)])
                margins.append(better.value - worse.value)
                labels.append(board_label(board.turns, better.guess or "", board.secret))
        record_labels(self.stage.run, self.stage.name, played.number, labels)
        numbers = {"boards": float(len(boards)), "pairs": float(len(pairs))}
        return pairs, numbers | ({"margin": statistics.fmean(margins)} if margins else {})

    def _sampled(self, played: Round) -> list[tuple[Board, list[Reply]]]:
        # Each distinct prompt once: otherwise the empty board, which every game reaches, would fill the batch.
        reached: dict[tuple[int, ...], Board] = {}
        for game in played.games:
            turns = game.trajectory.transcript.turns
            for board, _, _ in boards_of(game.trajectory):
                if not names_strict(turns[: len(board.turns)], self._setup.context.split):
                    reached[board.prompt_ids] = board
        count = min(self._dpo.boards_per_round, len(reached))
        boards = random.Random(played.seed).sample(list(reached.values()), count)
        each = self._dpo.guesses_per_board
        asked = [board for board in boards for _ in range(each)]
        played.sampler.begin()
        said = played.sampler.sample([Request(i, (), board.turns, board.prompt_ids) for i, board in enumerate(asked)])
        return [(board, self._valued(board, said[i * each : (i + 1) * each])) for i, board in enumerate(boards)]

    def _valued(self, board: Board, completions: Iterable[Completion]) -> list[Reply]:
        # The replies at one board, valued by the solver.
        setup, solver = self._setup, self._setup.solver
        candidates = solver.candidates([(turn.guess, turn.marks) for turn in board.turns if turn.guess and turn.marks])
        values: dict[Turn, float] = {}  # replies often name the same guess
        replies = []
        for completion in completions:
            if completion.error is not None:  # nothing was sampled
                continue
            game = Game(board.secret, setup.words, setup.prompter.rules)
            for earlier in board.turns:
                game.play(earlier.guess)
            parsed = setup.prompter.parse(completion.text)
            turn = game.play(parsed.word if isinstance(parsed, Guess) else None)
            if turn not in values:
                values[turn] = -turn_regret(turn, candidates, solver.regret)
            sound = not (completion.overlong or turn.outcome.broke_rules)
            replies.append(Reply(completion.token_ids, values[turn], sound, completion.text, turn.guess))
        return replies


def _example(board: Board, reply: Reply) -> Example:
    prompt, ids = board.prompt_ids, reply.token_ids
    return Example([*prompt, *ids], [0] * len(prompt) + [1] * len(ids))


def pairs_of(replies: Sequence[Reply], margin: float, limit: int) -> list[tuple[Reply, Reply]]:
    """Pair the best sound reply with up to `limit` replies that are worse by at least `margin`, the worst first."""
    # Equal token sequences are one reply: a pair of them would have no gradient.
    different = list({reply.token_ids: reply for reply in replies}.values())
    best = max((reply for reply in different if reply.sound), key=lambda reply: reply.value, default=None)
    if best is None:
        return []
    worse = sorted((r for r in different if best.value - r.value >= margin), key=lambda reply: reply.value)
    return [(best, reply) for reply in worse[:limit]]
