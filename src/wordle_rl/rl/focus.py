"""Which secrets to train on next: those whose groups' rewards spread most, or where greedy play lost most.

A group in which every game earned the same teaches nothing. Secrets with a large spread of rewards in recent groups are
therefore drawn more often; a secret that was never tried counts as the largest known spread. Where scouting plays every
secret greedily now and then, what it lost at each replaces that record, and the spread of the next groups is averaged
into it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from wordle_rl.words import WordList


class SecretPicker:
    """Draws the secrets of each step.

    Args:
        secrets: The secrets to choose from, all different.
        focus: 0 draws uniformly, 1 in proportion to the worth of each: the spread of its recent rewards, or what
            greedy play lost.
        seed: With the step it determines the draw, given the same record.

    Raises:
        ValueError: If there are no secrets.
    """

    _MEMORY = 0.5
    _FLOOR = 0.02

    def __init__(self, secrets: Sequence[str], focus: float, seed: int) -> None:
        if not secrets:
            raise ValueError("there are no secrets to train on; the training split is empty")
        self._secrets = list(secrets)
        self._index = {secret: i for i, secret in enumerate(self._secrets)}
        self._focus = focus
        self._seed = seed
        self._worth = np.full(len(self._secrets), np.nan)

    def __contains__(self, secret: object) -> bool:
        """Say whether a secret is one to choose from."""
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
        known = self._worth[~np.isnan(self._worth)]
        untried = known.max() if len(known) else 1.0
        worth = np.where(np.isnan(self._worth), untried, self._worth)
        worth = np.maximum(worth, self._FLOOR * max(untried, 1e-9))
        return np.asarray((1.0 - self._focus) / len(worth) + self._focus * worth / worth.sum())

    def update(self, secret: str, spread: float) -> None:
        """Record the standard deviation of one group's rewards."""
        i = self._index[secret]
        before = self._worth[i]
        self._worth[i] = spread if np.isnan(before) else self._MEMORY * before + (1 - self._MEMORY) * spread

    def restart(self, worth: Mapping[str, float]) -> None:
        """Replace all records by these; a secret without one counts as the largest."""
        self._worth[:] = np.nan
        for secret, value in worth.items():
            self._worth[self._index[secret]] = value

    def state(self) -> dict[str, Any]:
        """The record, to be stored with a checkpoint."""
        return {s: float(x) for s, x in zip(self._secrets, self._worth, strict=True) if not np.isnan(x)}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore a record; secrets no longer trained on are ignored."""
        for secret, worth in state.items():
            if secret in self._index:
                self._worth[self._index[secret]] = worth


def draw_numbers(step: int, process: int, refill: int) -> tuple[int, ...]:
    """What, beside the seed, tells the random stream of one draw from those of all others.

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
