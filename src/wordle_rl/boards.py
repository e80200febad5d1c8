"""Where games begin: initial states, boards of random answers, and the sampling of secrets.

Secrets are sampled by priority: the std of rewards within their groups, or what greedy play lost on them. Nothing here
needs a model, so servers and other trainers draw the same boards.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from wordle_rl.env import Transcript
from wordle_rl.game import hard_mode_fault, scored_turn
from wordle_rl.prompt import Message
from wordle_rl.words import WordList


@dataclass(frozen=True, slots=True)
class InitialState:
    """Secret of a game and the guesses already on its board.

    `prompt` takes the place of the first messages; empty: the run's own wording. An `invented` secret is not listed.
    """

    secret: str
    prefix_guesses: tuple[str, ...] = ()
    prompt: tuple[Message, ...] = field(default=(), compare=False, repr=False)
    invented: bool = field(default=False, compare=False)


def start_of(transcript: Transcript) -> InitialState:
    """Return the initial state of a game."""
    return InitialState(transcript.secret, tuple(turn.turn.guess or "" for turn in transcript.turns if turn.is_prefix))


def random_board(
    words: WordList,
    secret: str,
    rng: random.Random,
    max_prefix_guesses: int,
    *,
    hard_mode: bool = False,
    before: Sequence[str] = (),
    exactly: bool = False,
) -> tuple[str, ...]:
    """Draw 0 to `max_prefix_guesses` distinct answers, none of them the secret, as turns already played.

    Args:
        max_prefix_guesses: Most guesses, `before` included.
        hard_mode: Each guess must follow the hints of those before it. If no answer does, fewer are drawn.
        before: Guesses that come first. They are not part of the result.
        exactly: Draw exactly `max_prefix_guesses`.
    """
    guesses: list[str] = [*before]
    turns = [scored_turn(secret, guess) for guess in before] if hard_mode else []

    def is_allowed(word: str) -> bool:
        return word != secret and word not in guesses and hard_mode_fault(word, turns) is None

    for _ in range((max_prefix_guesses if exactly else rng.randint(0, max_prefix_guesses)) - len(before)):
        # Most draws are allowed at once. Only after a miss is the whole list filtered.
        word = words.answers[rng.randrange(len(words.answers))]
        if not is_allowed(word):
            left = [answer for answer in words.answers if is_allowed(answer)]
            if not left:
                break
            word = left[rng.randrange(len(left))]
        guesses.append(word)
        if hard_mode:
            turns.append(scored_turn(secret, word))
    return tuple(guesses[len(before) :])


class SecretPicker:
    """Prioritized sampling of secrets.

    The priority of a secret is a running mean of the reward std of its groups, or the reward that a greedy probe lost
    on it.

    Seed and step determine a draw, given the same priorities. `prioritized_fraction` of the draws go in proportion to
    priority; the rest is uniform.
    """

    _MEMORY = 0.5  # weight of the old value in the running mean
    _FLOOR = 0.02  # least priority, as a fraction of the largest: a solved secret is still tried now and then

    def __init__(self, secrets: Sequence[str], prioritized_fraction: float, seed: int) -> None:
        if not secrets:
            raise ValueError("secrets is empty: the training split has no words; give at least one secret")
        self._secrets = list(secrets)
        self._index = {secret: i for i, secret in enumerate(self._secrets)}
        self._prioritized_fraction = prioritized_fraction
        self._seed = seed
        self._priorities = np.full(len(self._secrets), np.nan)

    def __contains__(self, secret: object) -> bool:
        """True if `secret` can be drawn."""
        return secret in self._index

    def pick(self, count: int, step: int, process: int = 0, refill: int = 0) -> list[str]:
        """Draw secrets, without repeats within a process as long as there are enough; see `GroupStarts.draw`."""
        rng = np.random.default_rng([self._seed, *draw_numbers(step, process, refill)])
        weights = self.weights()
        repeats = count > int(np.count_nonzero(weights))  # numpy refuses more distinct draws than there are
        drawn = rng.choice(len(self._secrets), size=count, replace=repeats, p=weights)
        return [self._secrets[i] for i in drawn]

    def next_ones(self, count: int, step: int, process: int = 0, num_processes: int = 1) -> list[str]:
        """Return the next secrets of passes over all of them, each pass in an order of its own."""
        total, first = len(self._secrets), (step * num_processes + process) * count
        places = [divmod(place, total) for place in range(first, first + count)]
        orders = {number: np.random.default_rng([self._seed, number]).permutation(total) for number, _ in places}
        return [self._secrets[orders[number][place]] for number, place in places]

    def weights(self) -> npt.NDArray[np.float64]:
        """Return the probability of each secret, shape (secrets,), summing to 1."""
        known = self._priorities[~np.isnan(self._priorities)]
        untried = known.max() if len(known) else 1.0  # optimism: try every secret before repeating easy ones
        priorities = np.where(np.isnan(self._priorities), untried, self._priorities)
        priorities = np.maximum(priorities, self._FLOOR * max(untried, 1e-9))
        weight = self._prioritized_fraction
        return np.asarray((1.0 - weight) / len(priorities) + weight * priorities / priorities.sum())

    def update(self, secret: str, reward_std: float) -> None:
        """Move the priority of a secret towards the reward std of one group."""
        i = self._index[secret]
        before = self._priorities[i]
        after = self._MEMORY * before + (1 - self._MEMORY) * reward_std
        self._priorities[i] = reward_std if np.isnan(before) else after

    def reset(self, priorities: Mapping[str, float]) -> None:
        """Replace all priorities; a secret without one counts as untried."""
        self._priorities[:] = np.nan
        for secret, priority in priorities.items():
            self._priorities[self._index[secret]] = priority

    def state(self) -> dict[str, float]:
        """Return the known priorities by secret."""
        return {s: float(x) for s, x in zip(self._secrets, self._priorities, strict=True) if not np.isnan(x)}

    def load_state(self, state: Mapping[str, float]) -> None:
        """Restore priorities and ignore secrets that are no longer trained on."""
        for secret, priority in state.items():
            if secret in self._index:
                self._priorities[self._index[secret]] = priority


def draw_numbers(step: int, process: int, refill: int) -> tuple[int, ...]:
    """Return the key of a draw's random stream, without the seed.

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
