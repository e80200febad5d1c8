"""MLX backend for Macs: `wordle-rl run --backend mlx`, with the same settings, algorithms and run directories.

learner.py     `train.learner.Learner`: the update of every algorithm; AdamW and Muon with our schedules
losses.py      micro-batches, log-probabilities of trained tokens, and the losses of `train.loss`
model.py       build, load and save models as transformers directories; merge adapters and quantized weights
adapters.py    LoRA, stored as peft stores it
sampler.py     `BatchGenerator` behind our sampler protocol, with caches kept across turns
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from wordle_rl.config.base import ConfigError
from wordle_rl.config.model import ModelSettings
from wordle_rl.config.refusals import MLX
from wordle_rl.config.run import RunConfig
from wordle_rl.config.training import SamplingSettings
from wordle_rl.policy.base import Sampler
from wordle_rl.policy.constrain import MakeConstraint
from wordle_rl.runs.distributed import num_processes

if TYPE_CHECKING:
    from wordle_rl.mlx.learner import MLXLearner


def check_installed() -> None:
    """Refuse if packages are missing."""
    if missing := [name for name in ("torch", "transformers", "mlx", "mlx_lm") if find_spec(name) is None]:
        named = ", ".join(missing)
        raise ConfigError(f'MLX needs packages that are not installed ({named}): pip install "wordle-rl[train,mlx]"')


def check_settings(config: RunConfig) -> None:
    """Refuse the settings that only torch follows, each with its fix."""
    problems = [sentence for is_asked, sentence in MLX if is_asked(config)]
    if (processes := num_processes()) > 1:
        problems.append(f"a launch of {processes} processes: start one")
    if problems:
        raise ConfigError(f"MLX does not support {'; '.join(problems)}")


def load_learner(settings: ModelSettings, seed: int, *, temperature: float) -> MLXLearner:
    """Load a model for training."""
    from wordle_rl.mlx.learner import MLXLearner
    from wordle_rl.mlx.model import load_model

    model, codec = load_model(settings, seed)
    return MLXLearner(
        model,
        codec,
        gradient_checkpointing=settings.gradient_checkpointing,
        micro_batch_size=settings.micro_batch_size,
        temperature=temperature,
        seed=seed,
    )


def make_sampler(
    settings: ModelSettings, sampling: SamplingSettings, seeds: tuple[int, int], constraint: MakeConstraint
) -> Sampler:
    """Make a sampler of a stored model; `seeds` are those of an untrained model's weights and of the draws."""
    from wordle_rl.mlx.model import load_model
    from wordle_rl.mlx.sampler import MLXSampler

    model, codec = load_model(settings, seeds[0])
    return MLXSampler(model, codec, sampling, seeds[1], constraint(codec))


def export(model: Path, out: Path, dtype: str) -> float:
    """Write an adapter or quantized weights as one whole model. Return the distance of its logits."""
    from wordle_rl.mlx.model import fuse

    return fuse(model, out, "bfloat16" if dtype == "bfloat16" else "float32")
