"""Backends: libraries that hold, play and train a run's models in place of torch, by the name in `backend`.

torch is what the rooms themselves use. Another backend lies outside their order and is offered by whoever starts the
command, so that no room imports it; it leaves the same directories behind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import ConfigError, ModelSettings, RunConfig, SamplingSettings
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


_OFFERED: dict[str, Callable[[], Backend]] = {}


def offer_backend(name: str, load: Callable[[], Backend]) -> None:
    """Make a backend known by its name.

    Args:
        name: As settings name it.
        load: Imports it; called when it is asked for.
    """
    _OFFERED[name] = load


def find_backend(name: str) -> Backend:
    """The backend of this name.

    Raises:
        ConfigError: If it is not offered here, or its packages are not installed.
    """
    if name not in _OFFERED:
        raise ConfigError(
            f"backend {name!r} is offered by the command wordle-rl; start the run with it, or call "
            f"wordle_rl.{name}.offer() first"
        )
    return _OFFERED[name]()
