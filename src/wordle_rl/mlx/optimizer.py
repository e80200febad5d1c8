"""Optimizers with the settings, the update and the schedule of `train.optimizer`, over weights of MLX."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.optimizers as optim
from mlx.utils import tree_flatten, tree_unflatten

from wordle_rl.config import OptimizerSettings
from wordle_rl.mlx.model import MLXModel, Weights
from wordle_rl.train.optimizer import Part, rate_factor

_OF_WORDS = ("embed_tokens.weight", "lm_head.weight")


class DecayedMuon(optim.Muon):
    """MLX's Muon with decoupled weight decay, as torch's has."""

    def __init__(self, learning_rate: float, decay: float) -> None:
        super().__init__(learning_rate=learning_rate, momentum=0.95, weight_decay=0.0)
        self._decay = decay

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict[str, Any]) -> mx.array:
        """The update of one matrix."""
        shrunk = parameter * (1 - self.learning_rate.astype(parameter.dtype) * self._decay)
        return super().apply_single(gradient, shrunk, state)


class ScheduledOptimizer:
    """AdamW, or Muon for the matrices inside the layers and AdamW for the rest, with the schedule of the settings.

    Args:
        model: Its trainable weights are changed.
        settings: Optimizer, rates, decay, schedule.
        total_steps: Steps of this part of the schedule.
        part: The part of the schedule.
    """

    def __init__(self, model: MLXModel, settings: OptimizerSettings, total_steps: int, part: Part = (0, 1)) -> None:
        self._model, self._settings, self._total_steps, self._part = model, settings, total_steps, part
        weights = model.trainable()
        matrices = [
            name
            for name, weight in weights.items()
            if settings.name == "muon" and weight.ndim == 2 and not name.endswith(_OF_WORDS)
        ]
        rest = [name for name in weights if name not in set(matrices)]
        self._parts: list[tuple[Any, float, list[str]]] = []
        if matrices:
            muon = DecayedMuon(settings.muon_learning_rate, settings.weight_decay)
            self._parts.append((muon, settings.muon_learning_rate, matrices))
        if rest:
            adamw = optim.AdamW(
                settings.learning_rate,
                betas=[0.9, 0.95],
                eps=1e-8,
                weight_decay=settings.weight_decay,
                bias_correction=True,
            )
            self._parts.append((adamw, settings.learning_rate, rest))
        for optimizer, _, names in self._parts:
            optimizer.init({name: weights[name] for name in names})

    def rate(self, step: int) -> float:
        """Learning rate after `step` steps, of the first part."""
        return self._parts[0][1] * self._factor(step)

    def _factor(self, step: int) -> float:
        number, parts = self._part
        return rate_factor(self._settings, number * self._total_steps + step, parts * self._total_steps)

    def update(self, gradients: Weights, step: int) -> None:
        """Change the weights by their gradients.

        Args:
            gradients: Of every trainable weight, already clipped.
            step: Steps done before.
        """
        weights = self._model.trainable()
        for optimizer, rate, names in self._parts:
            optimizer.learning_rate = rate * self._factor(step)
            changed = optimizer.apply_gradients({n: gradients[n] for n in names}, {n: weights[n] for n in names})
            self._model.take(changed)
        mx.eval([optimizer.state for optimizer, *_ in self._parts])

    def save(self, path: Path) -> None:
        """Write the state of every part."""
        state = {f"{place}.{name}": value for place, (part, *_) in enumerate(self._parts) for name, value in flat(part)}
        mx.save_safetensors(str(path), state)

    def load(self, path: Path) -> None:
        """Restore what `save` wrote."""
        stored: Mapping[str, mx.array] = mx.load(str(path))
        for place, (part, *_) in enumerate(self._parts):
            theirs = {n: v for n, v in stored.items() if n.startswith(f"{place}.")}
            part.state = _unflat({name.removeprefix(f"{place}."): value for name, value in theirs.items()})


_DOT = "/"
"""Stands for the dots in names of weights, which are no levels of an optimizer's state."""


def flat(optimizer: Any) -> list[tuple[str, mx.array]]:
    """The state of an optimizer by name."""
    named = {name.replace(".", _DOT): value for name, value in optimizer.state.items()}
    found: list[tuple[str, mx.array]] = tree_flatten(named)
    return found


def _unflat(state: Mapping[str, mx.array]) -> dict[str, Any]:
    nested: dict[str, Any] = tree_unflatten(list(state.items()))
    return {name.replace(_DOT, "."): value for name, value in nested.items()}
