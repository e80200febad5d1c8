"""Hindsight labels: learn from every board of the policy's own games, lost games included.

A finished game reveals its secret, and with it the reward of every word at every board: 1 for the secret, 0 for all
others. On a board b, the expected reward of winning at once is therefore the policy's own probability of the secret,
pi(s | b), and its gradient needs no sampled guess:

    grad E[win now] = grad pi(s | b) = pi(s | b) grad log pi(s | b)

We train log pi(s | b): with the factor pi(s | b), words that are rarely named would hardly gain. No solver and no list
of candidates is asked; whoever played the game can compute the label.

`secret` puts this label on every board but the empty one, where it would be a word drawn at random. Averaged over
secrets the policy then names each word as often as it is the secret of such a board. That spreads its guesses: it never
settles on one good guess for a board, although one is enough.

`mistakes` corrects only what was wrong. A guess that no earlier mark rules out is kept as it was played, the opener
included; where the guess was ruled out, unlisted or malformed, the secret is the label. If games are played at a low
temperature, the kept guesses are mostly the likeliest ones. The policy then settles on one line of play for each board,
boards recur from round to round, and the corrections add up.

`refused` corrects less: a guess that got marks and is new on its board is kept, even if the marks rule it out. A policy
that has learnt from the solver names such words on purpose, to tell many answers apart, and `mistakes` would take them
from it.

The boards of a game share their prefixes, which the learner computes once (`logprobs.py`).

Sources: hindsight relabelling, Andrychowicz et al. 2017, arXiv:1707.01495; the sum over all actions, Ciosek and
Whiteson 2018, arXiv:1801.03326; labels on the boards that the policy itself comes to, Ross et al. 2011,
arXiv:1011.0686.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import islice, takewhile

from wordle_rl.config.base import ConfigError
from wordle_rl.config.stages import ExpertIterationSettings, Labels
from wordle_rl.env import PlayedTurn
from wordle_rl.game import Outcome, Turn, violates_clues
from wordle_rl.teachers.made_up_secrets import invented_words
from wordle_rl.train.example import Example
from wordle_rl.train.play_loop import Item, Stage
from wordle_rl.train.round_method import Numbers, Round, RoundMethod, label, names_strict, record_labels
from wordle_rl.train.scored_games import Scored
from wordle_rl.train.teacher_replay import Replay
from wordle_rl.words.split import Split

_INVENTED_SAMPLE = 1000
"""Number of invented words whose labels are measured before play."""


class RevealedSecrets(RoundMethod):
    """Label the boards of a round's games, and add teacher games."""

    def __init__(self, stage: Stage, settings: ExpertIterationSettings) -> None:
        super().__init__(stage, settings, invented_rate=settings.invented_rate)
        self._labels = settings.labels
        most = settings.groups_per_round * settings.group_size
        self._replay = Replay(stage, settings, most)
        budget = stage.setup.sampling.max_completion_tokens
        words = stage.setup.words
        secrets = [*stage.setup.secrets, *(words.outside if settings.outside_rate else ())]
        if settings.invented_rate:
            secrets += islice(invented_words(words, random.Random(stage.seed)), _INVENTED_SAMPLE)
        longest = max(len(self._reply_ids(word)) for word in secrets)
        if longest > budget:
            raise ConfigError(
                f"max_completion_tokens {budget} cuts off the label of a board, which takes {longest} tokens; raise it"
            )

    def choose(self, played: Round) -> tuple[list[Item], Numbers]:
        """Return the boards of the games with their labels, and teacher games."""
        items: list[Item] = []
        split = self.stage.setup.context.split
        labels, num_boards, num_kept = [], 0, 0
        for game in played.games:
            boards, kept = boards_to_teach(game, split, self._labels)
            num_boards, num_kept = num_boards + len(boards), num_kept + len(kept)
            transcript = game.trajectory.transcript
            items += items_of(game, boards, kept, self._reply_ids(transcript.secret))
            longest = max((*boards, *(board + 1 for board in kept)), default=0)
            turns = ((each.turn, number in kept) for number, each in enumerate(transcript.turns[:longest]))
            labels.append(label(transcript.secret, turns, boards_taught=sorted(boards)))
        record_labels(self.stage.run, self.stage.name, played.number, labels)
        items, numbers = self._replay.add(items, len(played.games), played.number)
        own = {"own_guesses": float(num_kept)} if self._labels != "secret" else {}
        return items, {"labels": float(num_boards), **own, **numbers}

    def _reply_ids(self, word: str) -> Sequence[int]:
        return self.stage.codec.reply_ids(self.stage.setup.prompter.reply(word, ""))


def boards_to_teach(game: Scored, split: Split, labels: Labels) -> tuple[frozenset[int], frozenset[int]]:
    """Return the boards that get the secret as their label, and those whose own guess is trained on.

    A board is named by its number of turns. No board follows a strict word, and no strict word is a label.
    """
    transcript = game.trajectory.transcript
    turns = transcript.turns
    num_clean = sum(1 for _ in takewhile(lambda turn: not names_strict([turn], split), turns[:-1]))
    first = len(turns) - len(transcript.own_turns)  # turns before it were given
    boards = frozenset(range(max(1, first), num_clean + 1))
    if labels == "secret":
        return boards, frozenset()
    # The opener is kept, too: were it left to drift, the policy would one day open with another word and meet
    # boards that none of its games have shown.
    shown = [played.turn for played in turns]
    kept = frozenset(
        board
        for board in range(first, num_clean + 1)
        if _is_kept(turns[board], shown[:board], labels) and not names_strict([turns[board]], split)
    )
    return boards - kept, kept


def _is_kept(played: PlayedTurn, board: Sequence[Turn], labels: Labels) -> bool:
    guess = played.turn.guess
    if played.turn.outcome is not Outcome.SCORED or played.overlong or guess is None:
        return False
    if labels == "refused":
        return guess not in {turn.guess for turn in board}
    return not violates_clues(guess, board)


def items_of(game: Scored, boards: frozenset[int], kept: frozenset[int], reply: Sequence[int]) -> Iterator[Item]:
    """Yield what is learnt from each token sequence of a game: the label after each board, then the game itself.

    Boards come longest first; the game is there if any of its own guesses is kept. They share a batch, and so the
    learner computes their common prefix once.

    Args:
        boards: Boards with a label, by their number of turns.
        kept: Boards whose own guess is trained on.
        reply: The label as token ids.
    """
    transcript = game.trajectory.transcript
    first = len(transcript.turns) - len(transcript.own_turns)
    for segment in game.trajectory.segments:
        ids, prompt = [*segment.prompt_ids, *segment.token_ids], len(segment.prompt_ids)
        mask = [0] * len(ids)
        forks = []  # where the prompts of labelled boards end
        for turn, start, stop in segment.spans:
            if first + turn in kept:
                mask[prompt + start : prompt + stop] = [1] * (stop - start)
            if first + turn in boards:
                forks.append(prompt + start)
        item = [Example([*ids[:fork], *reply], [0] * fork + [1] * len(reply)) for fork in reversed(forks)]
        if any(mask):
            item.append(Example(ids, mask))
        if item:
            yield item
