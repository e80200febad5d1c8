"""The functions that the pipeline asks a backend for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import ModelSettings, RunConfig, SamplingSettings
from wordle_rl.integrations.mlx.grpo import train_grpo
from wordle_rl.integrations.mlx.model import MLXModel, load_model
from wordle_rl.integrations.mlx.refusals import check_settings
from wordle_rl.integrations.mlx.sampler import MLXSampler
from wordle_rl.integrations.mlx.sft import train_sft
from wordle_rl.models.backends import MakeConstraint
from wordle_rl.samplers.base import Sampler


class MLXBackend:
    """See `models.backends.Backend`."""

    def check(self, config: RunConfig) -> None:
        """Refuse settings of a run that MLX would not follow."""
        check_settings(config)

    def load_model(self, settings: ModelSettings, seed: int) -> tuple[MLXModel, ChatCodec]:
        """A model and its codec."""
        return load_model(settings, seed)

    def make_sampler(
        self, settings: ModelSettings, sampling: SamplingSettings, seed: int, constraint: MakeConstraint
    ) -> Sampler:
        """A sampler of a stored model."""
        model, codec = load_model(settings, seed)
        return MLXSampler(model, codec, sampling, seed, constraint(codec))

    @property
    def train_sft(self) -> Callable[..., Path]:
        """Supervised fine-tuning."""
        return train_sft

    @property
    def train_grpo(self) -> Callable[..., Path]:
        """Multi-turn GRPO."""
        return train_grpo
