"""The functions that the pipeline calls on a backend."""

from __future__ import annotations

from pathlib import Path

from wordle_rl.config import ModelSettings, RunConfig, SamplingSettings
from wordle_rl.mlx.learner import MLXLearner
from wordle_rl.mlx.model import load_model
from wordle_rl.mlx.sampler import MLXSampler
from wordle_rl.policy.base import MakeConstraint, Sampler
from wordle_rl.train.capabilities import check_capabilities


class MLXBackend:
    """See `policy.base.Backend`."""

    def check(self, config: RunConfig) -> None:
        """Check that MLX supports a run's settings."""
        check_capabilities(config, "MLX", MLXLearner.capabilities)

    def load_learner(
        self, settings: ModelSettings, seed: int, *, gradient_checkpointing: bool, temperature: float
    ) -> MLXLearner:
        """Load a model for training."""
        model, codec = load_model(settings, seed)
        return MLXLearner(
            model, codec, gradient_checkpointing=gradient_checkpointing, temperature=temperature, seed=seed
        )

    def make_sampler(
        self, settings: ModelSettings, sampling: SamplingSettings, seed: int, constraint: MakeConstraint
    ) -> Sampler:
        """Make a sampler of a stored model."""
        model, codec = load_model(settings, seed)
        return MLXSampler(model, codec, sampling, seed, constraint(codec))

    def export(self, model: Path, out: Path, dtype: str) -> float:
        """Write an adapter or quantized weights as one whole model. Return the distance of its logits."""
        from wordle_rl.mlx.fuse import fuse

        return fuse(model, out, "bfloat16" if dtype == "bfloat16" else "float32")
