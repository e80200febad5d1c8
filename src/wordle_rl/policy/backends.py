"""Backends: libraries that hold, play and train a run's models in place of torch, chosen by `backend`.

Torch is built in. Another backend is imported by name only when a run asks for it; it writes the same directories.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import ModelSettings, RunConfig, SamplingSettings
from wordle_rl.policy.base import Sampler
from wordle_rl.policy.constrain import WordConstraint

MakeConstraint = Callable[[ChatCodec], WordConstraint | None]
"""Returns the limit on a model's guesses for its codec, or None for no limit."""


class Backend(Protocol):
    """A library that holds, plays and trains models."""

    def check(self, config: RunConfig) -> None:
        """Check that the backend supports a run's settings.

        Raises:
            ConfigError: Names each unsupported setting and its fix in one line.
        """

    def load_learner(
        self, settings: ModelSettings, seed: int, *, gradient_checkpointing: bool, temperature: float
    ) -> Any:
        """Load a model for training: a `train.learner.Learner`."""

    def make_sampler(
        self, settings: ModelSettings, sampling: SamplingSettings, seed: int, constraint: MakeConstraint
    ) -> Sampler:
        """Make a sampler of a stored model."""

    def export(self, model: Path, out: Path, dtype: str) -> float:
        """Write an adapter or quantized weights as one whole model. Return the distance of its logits from theirs."""


_BACKENDS = {"mlx": "wordle_rl.mlx"}
"""Backend -> module with a `load_backend()`."""


def find_backend(name: str) -> Backend:
    """Import a backend by name.

    Raises:
        ConfigError: If its packages are not installed.
    """
    backend: Backend = importlib.import_module(_BACKENDS[name]).load_backend()
    return backend
