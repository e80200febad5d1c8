"""Which secrets to train on next: those whose groups still disagree with themselves, or that greedy play fails at.

A group in which every game earned the same teaches nothing. Secrets whose recent groups were spread out are
therefore drawn more often; secrets never tried count as if they were as spread out as any. Where every secret is tried
greedily now and then, what greedy play gave away at each takes the place of that record, and the spread of its next
groups is averaged into it.
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
        focus: 0 draws all alike, 1 in proportion to what each is worth: the spread of its recent rewards, or what
            greedy play gave away.
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

    def pick(self, count: int, step: int, process: int = 0, refill: int = 0) -> list[str]:
        """Draw `count` secrets, without repeats in a process while there are enough.

        `refill` counts the draws of one step.
        """
        rng = np.random.default_rng([self._seed, step, process, refill])
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
        """Forget all records; each secret begins anew with so much, the others are worth as much as any."""
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


def with_outside(secrets: Sequence[str], words: WordList, rate: float, rng: random.Random) -> list[str]:
    """Put, with a chance of `rate` each, a listed word from outside the answers in a secret's place."""
    if not rate or not words.outside:
        return list(secrets)
    return [rng.choice(words.outside) if rng.random() < rate else secret for secret in secrets]
