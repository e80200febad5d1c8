"""Initial states of groups: the secret, and the prefix guesses already made.

Secrets are sampled by priority: the std of their groups' rewards, or what greedy play lost on them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from wordle_rl.env import Transcript
from wordle_rl.game import Outcome, Turn, hard_mode_fault, score_guess
from wordle_rl.prompt import Prompter
from wordle_rl.rollout import InitialState, start_of
from wordle_rl.runs import Run
from wordle_rl.words import WordList


class GroupStarts:
    """Draws the initial states of each step.

    Args:
        words: The word lists.
        prompter: Wording and rules.
        secrets: The answers that may be secrets.
        seed: With the step it determines the draw, given the same priorities.
        prioritized_fraction: See `SecretPicker`.
        outside_rate: Fraction of secrets that are listed words outside the answers.
        max_prefix_guesses: Prefix each group with 0 to this many random guesses.
        prefixes: Draws the prefix guesses of a group instead, given its secret.
        given_starts: Initial states of a file, which some groups take.
        starts_fraction: Fraction of those groups, if there are such starts.

    Raises:
        ValueError: If there are no secrets.
    """

    def __init__(
        self,
        words: WordList,
        prompter: Prompter,
        secrets: Iterable[str],
        seed: int,
        *,
        prioritized_fraction: float = 0.0,
        outside_rate: float = 0.0,
        max_prefix_guesses: int = 0,
        prefixes: Callable[[str, random.Random], tuple[str, ...]] | None = None,
        given_starts: Sequence[InitialState] = (),
        starts_fraction: float = 0.0,
    ) -> None:
        self._words, self._seed, self._outside_rate = words, seed, outside_rate
        hard_mode = prompter.rules.hard_mode
        self._prefixes = prefixes or (
            lambda secret, rng: random_given(words, secret, rng, max_prefix_guesses, hard_mode=hard_mode)
        )
        self._given_starts, self._starts_fraction = given_starts, starts_fraction
        self._given_boards = frozenset(start for start in given_starts if start.prefix_guesses)
        self.picker = SecretPicker(list(secrets), prioritized_fraction, seed)

    def draw(
        self, num_groups: int, step: int, process: int = 0, refill: int = 0, rng: random.Random | None = None
    ) -> list[InitialState]:
        """One start per group.

        Args:
            num_groups: How many.
            step: Optimizer step, or round.
            process: Of several processes each has groups of its own.
            refill: 0 for the step's first draw, then 1, 2, … for redraws.
            rng: Draws the words from outside and the prefix guesses; None: a stream of the seed and this draw.
        """
        if rng is None:
            rng = random.Random(":".join(map(str, (self._seed, *draw_numbers(step, process, refill)))))
        secrets = self.picker.pick(num_groups, step, process, refill)
        starts = [
            InitialState(secret, self._prefixes(secret, rng))
            for secret in with_outside(secrets, self._words, self._outside_rate, rng)
        ]
        return self._with_given(starts, draw_numbers(step, process, refill)) if self._given_starts else starts

    def _with_given(self, starts: Sequence[InitialState], numbers: Sequence[int]) -> list[InitialState]:
        """Replace each start, with probability `starts_fraction`, by one of the file; no repeats while there are
        enough.

        It uses a separate random stream, so that all other draws are unchanged.
        """
        rng = random.Random(":".join(map(str, (self._seed, *numbers, "given"))))
        places = [place for place in range(len(starts)) if rng.random() < self._starts_fraction]
        repeats = len(places) > len(self._given_starts)
        draw = rng.choices if repeats else rng.sample
        replaced = dict(zip(places, draw(self._given_starts, k=len(places)), strict=True))
        return [replaced.get(place, start) for place, start in enumerate(starts)]

    def note(self, transcript: Transcript, reward_std: float) -> None:
        """Take in the standard deviation of a group's rewards; `transcript`: any game of the group.

        A group that began at a board of the file is ignored: it is no evidence about its secret from the empty board.
        """
        if transcript.secret in self.picker and start_of(transcript) not in self._given_boards:
            self.picker.update(transcript.secret, reward_std)

    def state(self) -> dict[str, Any]:
        """The priorities, to be stored with a checkpoint."""
        return {"priorities": self.picker.state()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore priorities."""
        self.picker.load_state(state["priorities"])


def record_secrets(run: Run, stage: str, step: int, process: int, secrets: Sequence[str]) -> None:
    """Write to secrets.jsonl which secrets are played, for the audit."""
    run.append("secrets.jsonl", {"stage": stage, "step": step, "process": process, "secrets": list(secrets)})


def random_given(
    words: WordList,
    secret: str,
    rng: random.Random,
    max_prefix_guesses: int,
    *,
    hard_mode: bool = False,
    before: Sequence[str] = (),
    exactly: bool = False,
) -> tuple[str, ...]:
    """Draw 0 to `max_prefix_guesses` different answers, none of them the secret, as turns already played.

    In hard mode each of them keeps to the hints of those before it. Where the answers run out, fewer are drawn. Guesses
    `before` count, but are not returned; with `exactly` the largest number is drawn, not up to it.
    """
    given: list[str] = [*before]
    turns = [Turn(guess, score_guess(secret, guess), Outcome.SCORED) for guess in before] if hard_mode else []
    for _ in range((max_prefix_guesses if exactly else rng.randint(0, max_prefix_guesses)) - len(before)):
        word = words.answers[rng.randrange(len(words.answers))]
        if not _may_be_given(word, secret, given, turns):
            left = [answer for answer in words.answers if _may_be_given(answer, secret, given, turns)]
            if not left:
                break
            word = left[rng.randrange(len(left))]
        given.append(word)
        if hard_mode:
            turns.append(Turn(word, score_guess(secret, word), Outcome.SCORED))
    return tuple(given[len(before) :])


def _may_be_given(word: str, secret: str, given: Sequence[str], turns: Sequence[Turn]) -> bool:
    return word != secret and word not in given and hard_mode_fault(word, turns) is None


class SecretPicker:
    """Prioritized sampling of secrets by within-group reward std or greedy cost.

    Args:
        secrets: The secrets to choose from, all different.
        prioritized_fraction: Fraction of the draws in proportion to the priority of each secret, which is a running
            mean of its groups' reward std, or the reward that a greedy probe lost on it; the rest is uniform.
        seed: With the step it determines the draw, given the same priorities.

    Raises:
        ValueError: If there are no secrets.
    """

    _MEMORY = 0.5
    _FLOOR = 0.02

    def __init__(self, secrets: Sequence[str], prioritized_fraction: float, seed: int) -> None:
        if not secrets:
            raise ValueError("there are no secrets to train on; the training split is empty")
        self._secrets = list(secrets)
        self._index = {secret: i for i, secret in enumerate(self._secrets)}
        self._prioritized_fraction = prioritized_fraction
        self._seed = seed
        self._priorities = np.full(len(self._secrets), np.nan)

    def __contains__(self, secret: object) -> bool:
        """True if a secret is one to choose from."""
        return secret in self._index

    def pick(self, count: int, step: int, process: int = 0, refill: int = 0) -> list[str]:
        """Draw `count` secrets, without repeats in a process while there are enough.

        `refill` is 0 for the step's first draw, then 1, 2, … for redraws.
        """
        rng = np.random.default_rng([self._seed, *draw_numbers(step, process, refill)])
        weights = self.weights()
        repeats = count > int(np.count_nonzero(weights))
        drawn = rng.choice(len(self._secrets), size=count, replace=repeats, p=weights)
        return [self._secrets[i] for i in drawn]

    def weights(self) -> npt.NDArray[np.float64]:
        """The chance of each secret, summing to 1."""
        known = self._priorities[~np.isnan(self._priorities)]
        untried = known.max() if len(known) else 1.0
        priorities = np.where(np.isnan(self._priorities), untried, self._priorities)
        priorities = np.maximum(priorities, self._FLOOR * max(untried, 1e-9))
        weight = self._prioritized_fraction
        return np.asarray((1.0 - weight) / len(priorities) + weight * priorities / priorities.sum())

    def update(self, secret: str, reward_std: float) -> None:
        """Move the priority of a secret towards the standard deviation of one group's rewards."""
        i = self._index[secret]
        before = self._priorities[i]
        after = self._MEMORY * before + (1 - self._MEMORY) * reward_std
        self._priorities[i] = reward_std if np.isnan(before) else after

    def reset(self, priorities: Mapping[str, float]) -> None:
        """Replace all priorities by these; a secret without one counts as the largest."""
        self._priorities[:] = np.nan
        for secret, priority in priorities.items():
            self._priorities[self._index[secret]] = priority

    def state(self) -> dict[str, float]:
        """The priorities known so far."""
        return {s: float(x) for s, x in zip(self._secrets, self._priorities, strict=True) if not np.isnan(x)}

    def load_state(self, state: Mapping[str, float]) -> None:
        """Restore priorities; secrets no longer trained on are ignored."""
        for secret, priority in state.items():
            if secret in self._index:
                self._priorities[self._index[secret]] = priority


def draw_numbers(step: int, process: int, refill: int) -> tuple[int, ...]:
    """Key of the random stream of one draw, besides the seed.

    Examples:
        >>> draw_numbers(7, 0, refill=0), draw_numbers(7, 0, refill=2)
        ((7, 0), (7, 0, 2))
    """
    return (step, process, refill) if refill else (step, process)


def with_outside(secrets: Sequence[str], words: WordList, rate: float, rng: random.Random) -> list[str]:
    """Replace each secret, with probability `rate`, by a listed word from outside the answers."""
    if not rate or not words.outside:
        return list(secrets)
    return [rng.choice(words.outside) if rng.random() < rate else secret for secret in secrets]
