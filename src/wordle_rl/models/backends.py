"""Backends: libraries that hold, play and train a run's models in place of torch, by the name in `backend`.

torch is what the rooms themselves use. Another backend lies outside their order and is imported by its name when a run
asks for it; it leaves the same directories behind.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import ModelSettings, RunConfig, SamplingSettings
from wordle_rl.samplers.base import Sampler
from wordle_rl.samplers.constrain import WordConstraint

MakeConstraint = Callable[[ChatCodec], WordConstraint | None]
"""Limits a model's guesses to listed words, given its codec; None: no limit."""


class Backend(Protocol):
    """A library that holds, plays and trains models."""

    def check(self, config: RunConfig) -> None:
        """Refuse settings of a run that it would not follow.

        Raises:
            ConfigError: In one line, each setting with its fix.
        """

    def load_learner(
        self, settings: ModelSettings, seed: int, *, gradient_checkpointing: bool, temperature: float
    ) -> Any:
        """A model that is to be trained: a `train.learner.Learner`."""

    def make_sampler(
        self, settings: ModelSettings, sampling: SamplingSettings, seed: int, constraint: MakeConstraint
    ) -> Sampler:
        """A sampler of a stored model."""

    def export(self, model: Path, out: Path, dtype: str) -> float:
        """Write an adapter or few-bit weights as one whole model, and return how far its logits are from theirs."""


_BACKENDS = {"mlx": "wordle_rl.mlx"}
"""Name of a backend -> module whose `load_backend()` makes it."""


def find_backend(name: str) -> Backend:
    """The backend of this name.

    Raises:
        ConfigError: If its packages are not installed.
    """
    backend: Backend = importlib.import_module(_BACKENDS[name]).load_backend()
    return backend
