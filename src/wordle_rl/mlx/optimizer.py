"""Optimizers over MLX weights, with the settings, update and schedule of `train.optimizer`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.optimizers as optim
from mlx.utils import tree_flatten, tree_unflatten

from wordle_rl.config import OptimizerSettings
from wordle_rl.mlx.model import MLXModel, read
from wordle_rl.train.optimizer import Part, rate_factor

_OF_WORDS = ("embed_tokens.weight", "lm_head.weight")


class ScheduledOptimizer:
    """AdamW, or Muon for matrices inside the layers and AdamW for the rest, with a learning rate schedule.

    Args:
        model: Its trainable weights are changed.
        settings: Learning rates and schedule.
        total_steps: Steps of this part of the schedule.
        part: Part of the schedule: its number, and the number of parts.
    """

    def __init__(self, model: MLXModel, settings: OptimizerSettings, total_steps: int, part: Part = (0, 1)) -> None:
        self._network, self._settings, self._total_steps, self._part = model.network, settings, total_steps, part
        rate, muon_rate = settings.learning_rate, settings.muon_learning_rate
        adamw = optim.AdamW(rate, betas=[0.9, 0.95], eps=1e-8, weight_decay=0.0, bias_correction=True)
        if muon_rate is not None:
            self._rates = [muon_rate, rate]
            self._optimizer = optim.MultiOptimizer(
                [optim.Muon(muon_rate, momentum=0.95, weight_decay=0.0), adamw], [_is_matrix]
            )
        else:
            self._rates = [rate]
            self._optimizer = optim.MultiOptimizer([adamw])
        self._optimizer.init(self._network.trainable_parameters())

    def rate(self, step: int) -> float:
        """Return the first optimizer's learning rate after `step` steps."""
        return self._rates[0] * self._factor(step)

    def _factor(self, step: int) -> float:
        number, parts = self._part
        return rate_factor(self._settings, number * self._total_steps + step, parts * self._total_steps)

    def update(self, gradients: Any, step: int) -> None:
        """Apply gradients to the weights.

        Args:
            gradients: Clipped gradients of every trainable weight, as a tree.
            step: Number of steps before this one.
        """
        for optimizer, rate in zip(self._optimizer.optimizers, self._rates, strict=True):
            optimizer.learning_rate = rate * self._factor(step)
        self._optimizer.update(self._network, gradients)
        mx.eval(self._network.trainable_parameters(), self._optimizer.state)

    def save(self, path: Path) -> None:
        """Write the optimizer state."""
        mx.save_safetensors(str(path), dict(tree_flatten(self._optimizer.state)))

    def load(self, path: Path) -> None:
        """Restore the state that `save` wrote."""
        self._optimizer.state = tree_unflatten(list(read(path).items()))


def _is_matrix(name: str, weight: mx.array) -> bool:
    return weight.ndim == 2 and not name.endswith(_OF_WORDS)
