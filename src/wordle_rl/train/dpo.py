"""Direct preference optimization on guesses: make the better of two replies to the same prompt likelier.

The policy plays, and its boards become prompts. If the judge is `regret` or `information`, more replies are sampled at
each board and the solver values their guesses. If it is `outcome`, replies of one group's games to the same prompt are
compared by the rewards of those games. Pairs hold the token ids as sampled. The reference is the initial model.

Source: DPO, arXiv:2305.18290; adding the likelihood of the chosen replies, arXiv:2404.19733.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Unpack

from wordle_rl.config import DPOTraining
from wordle_rl.data.dataset import Example
from wordle_rl.env import PlayedTurn
from wordle_rl.game import Game, Turn
from wordle_rl.policy.base import Completion, Request
from wordle_rl.prompt import Guess
from wordle_rl.reward.clues import information_share
from wordle_rl.runs import Run
from wordle_rl.solver import turn_regret
from wordle_rl.train.learner import Learner
from wordle_rl.train.loop import TrainingLoop
from wordle_rl.train.loss import PreferenceLoss
from wordle_rl.train.round_loop import Numbers, Round, RoundOptions, Rounds, Row, board_label, fit_round, record_labels
from wordle_rl.train.scored_games import Board, Scored, boards_of
from wordle_rl.train.starts import GameSetup

NAME = "dpo"


@dataclass(frozen=True, slots=True)
class Reply:
    """A sampled reply to a board and its value.

    Attributes:
        token_ids: The reply as sampled.
        value: Higher is better.
        sound: True if the reply is complete and the rules allow its guess.
        text: The reply as text.
        guess: The guess parsed from it.
    """

    token_ids: tuple[int, ...]
    value: float
    sound: bool
    text: str = ""
    guess: str | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """Two replies to one prompt, as sampled token ids."""

    prompt_ids: list[int]
    chosen_ids: list[int]
    rejected_ids: list[int]

    def examples(self) -> list[Example]:
        """Return the chosen reply, then the rejected one, each after the prompt."""
        prompt = self.prompt_ids
        return [
            Example([*prompt, *reply], [0] * len(prompt) + [1] * len(reply))
            for reply in (self.chosen_ids, self.rejected_ids)
        ]


def train_dpo(
    learner: Learner,
    setup: GameSetup,
    settings: DPOTraining,
    run: Run,
    **options: Unpack[RoundOptions],
) -> Path:
    """Train the model on pairs of its own guesses and save it to `<run>/dpo`.

    An interrupted training resumes where it stopped. Arguments as for `Rounds`. The model passed in is the reference.

    Returns:
        The model directory.

    Raises:
        ConfigError: If a setting cannot work.
        KeyboardInterrupt: After Ctrl-C.
    """
    rounds = Rounds(NAME, learner, setup, settings, run, **options)
    return rounds.train(_BetterGuesses(rounds, settings))


class _BetterGuesses:
    needs_reference = True

    def __init__(self, rounds: Rounds, settings: DPOTraining) -> None:
        self._setup, self._settings, self._run = rounds.setup, settings, rounds.run

    def choose(self, played: Round) -> tuple[list[Row], Numbers]:
        """Return pairs of replies as rows, and how many boards and pairs there were."""
        if self._settings.judge == "outcome":
            boards = [board for group in played.groups for board in compared(group)]
        else:
            boards = self._sampled(played)
        pairs, margins, labels = [], [], []
        split = self._setup.context.split
        for board, replies in boards:
            # Strict words must never be learnt, neither from a board nor from a reply.
            if split.strict_words_in(*(turn.guess for turn in board.turns)):
                continue
            replies = [reply for reply in replies if not split.strict_words_in(reply.guess, reply.text)]
            for better, worse in pairs_of(replies, self._settings.margin, self._settings.pairs_per_board):
                pairs.append(Pair(list(board.prompt_ids), list(better.token_ids), list(worse.token_ids)))
                margins.append(better.value - worse.value)
                labels.append(board_label(board.turns, better.guess or "", board.secret))
        record_labels(self._run, NAME, played.number, labels)
        numbers = {"boards": float(len(boards)), "pairs": float(len(pairs))}
        return [asdict(pair) for pair in pairs], numbers | ({"margin": statistics.fmean(margins)} if margins else {})

    def fit(self, loop: TrainingLoop, rows: list[Row], seed: int, part: tuple[int, int]) -> bool:
        """Train on pairs."""
        settings = self._settings
        loss = PreferenceLoss(beta=settings.beta, kind=settings.loss_type, sft_weight=settings.sft_weight)
        return fit_round(loop, [Pair(**row).examples() for row in rows], settings, seed, part, loss)

    def _sampled(self, played: Round) -> list[tuple[Board, list[Reply]]]:
        games = (game for group in played.groups for game in group)
        reached = {board.prompt_ids: board for game in games for board, _, _ in boards_of(game)}
        count = min(self._settings.boards_per_round, len(reached))
        boards = random.Random(played.seed).sample(list(reached.values()), count)
        each = self._settings.guesses_per_board
        asked = [board for board in boards for _ in range(each)]
        played.sampler.begin()
        said = played.sampler.sample([Request(i, (), board.turns, board.prompt_ids) for i, board in enumerate(asked)])
        judge = _Judge(self._setup, self._settings.judge)
        return [(board, judge(board, said[i * each : (i + 1) * each])) for i, board in enumerate(boards)]


class _Judge:
    def __init__(self, setup: GameSetup, measure: str) -> None:
        self._setup, self._measure = setup, measure

    def __call__(self, board: Board, completions: Iterable[Completion]) -> list[Reply]:
        """Value the completions at one board."""
        scored = [(turn.guess, turn.marks) for turn in board.turns if turn.guess and turn.marks]
        solver = self._setup.solver
        candidates = solver.candidates(scored)
        guess_values: dict[Turn, float] = {}
        replies = []
        for completion in completions:
            if completion.error is not None:  # nothing was sampled
                continue
            turn = self._turn(board, completion.text)
            if turn not in guess_values:
                if self._measure == "regret":
                    guess_values[turn] = -turn_regret(turn, candidates, solver.regret)
                else:
                    guess_values[turn] = information_share(turn, board.secret, candidates, solver)
            sound = not (completion.overlong or turn.outcome.broke_rules)
            replies.append(Reply(completion.token_ids, guess_values[turn], sound, completion.text, turn.guess))
        return replies

    def _turn(self, board: Board, text: str) -> Turn:
        prompter = self._setup.prompter
        game = Game(board.secret, self._setup.words, prompter.rules)
        for turn in board.turns:
            game.play(turn.guess)
        parsed = prompter.parse(text)
        return game.play(parsed.word if isinstance(parsed, Guess) else None)


def compared(group: Sequence[Scored]) -> list[tuple[Board, list[Reply]]]:
    """Collect the boards that several games of a group reached, with their replies there.

    The value of a reply is the mean reward of the games that gave it. Those games are identical up to that reply.
    """
    boards: dict[tuple[int, ...], Board] = {}
    rewards: dict[tuple[int, ...], dict[tuple[tuple[int, ...], bool], list[float]]] = {}
    played: dict[tuple[int, ...], PlayedTurn] = {}
    for game in group:
        for board, token_ids, sound in boards_of(game):
            boards[board.prompt_ids] = board
            played[token_ids] = game.trajectory.transcript.turns[len(board.turns)]
            rewards.setdefault(board.prompt_ids, {}).setdefault((token_ids, sound), []).append(game.reward.total)
    found = []
    for key, said in rewards.items():
        if len(said) > 1:
            replies = [
                Reply(ids, statistics.fmean(totals), sound, played[ids].reply, played[ids].turn.guess)
                for (ids, sound), totals in said.items()
            ]
            found.append((boards[key], replies))
    return found


def pairs_of(replies: Sequence[Reply], margin: float, limit: int) -> list[tuple[Reply, Reply]]:
    """Pair the best sound reply with up to `limit` replies that are worse by at least `margin`, the worst first."""
    different = list({reply.token_ids: reply for reply in replies}.values())
    best = max((reply for reply in different if reply.sound), key=lambda reply: reply.value, default=None)
    if best is None:
        return []
    worse = sorted((r for r in different if best.value - r.value >= margin), key=lambda reply: reply.value)
    return [(best, reply) for reply in worse[:limit]]
