"""The functions that the pipeline asks a backend for."""

from __future__ import annotations

from pathlib import Path

from wordle_rl.config import ModelSettings, RunConfig, SamplingSettings
from wordle_rl.mlx.learner import MLXLearner
from wordle_rl.mlx.model import load_model
from wordle_rl.mlx.sampler import MLXSampler
from wordle_rl.models.backends import MakeConstraint
from wordle_rl.samplers.base import Sampler
from wordle_rl.train.capabilities import check_capabilities


class MLXBackend:
    """See `models.backends.Backend`."""

    def check(self, config: RunConfig) -> None:
        """Refuse settings of a run that MLX would not follow."""
        check_capabilities(config, "MLX", MLXLearner.capabilities)

    def load_learner(
        self, settings: ModelSettings, seed: int, *, gradient_checkpointing: bool, temperature: float
    ) -> MLXLearner:
        """A model that is to be trained."""
        model, codec = load_model(settings, seed)
        return MLXLearner(
            model, codec, gradient_checkpointing=gradient_checkpointing, temperature=temperature, seed=seed
        )

    def make_sampler(
        self, settings: ModelSettings, sampling: SamplingSettings, seed: int, constraint: MakeConstraint
    ) -> Sampler:
        """A sampler of a stored model."""
        model, codec = load_model(settings, seed)
        return MLXSampler(model, codec, sampling, seed, constraint(codec))

    def export(self, model: Path, out: Path, dtype: str) -> float:
        """Write an adapter or quantized weights as one whole model, compared by logits in standard deviations."""
        from wordle_rl.mlx.fuse import fuse

        return fuse(model, out, "bfloat16" if dtype == "bfloat16" else "float32")
