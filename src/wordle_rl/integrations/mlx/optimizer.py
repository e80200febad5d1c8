"""Optimizers with the settings, the update and the schedule of `training.optimizer`, over weights of MLX."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.optimizers as optim
from mlx.utils import tree_flatten, tree_unflatten

from wordle_rl.config import OptimizerSettings
from wordle_rl.integrations.mlx.model import MLXModel, Weights
from wordle_rl.training.optimizer import rate_factor

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
        total_steps: Steps of the whole training.
    """

    def __init__(self, model: MLXModel, settings: OptimizerSettings, total_steps: int) -> None:
        self._model, self._settings, self._total_steps = model, settings, total_steps
        names = list(model.trainable())
        matrices = [name for name in names if settings.name == "muon" and self._is_matrix(name)]
        rest = [name for name in names if name not in set(matrices)]
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
        weights = model.trainable()
        for part, _, theirs in self._parts:
            part.init({name: weights[name] for name in theirs})

    def _is_matrix(self, name: str) -> bool:
        return self._model.trainable()[name].ndim == 2 and not name.endswith(_OF_WORDS)

    def rate(self, step: int) -> float:
        """Learning rate at a step, counted from 0; of the last part, as transformers logs it."""
        return self._parts[0][1] * rate_factor(self._settings, step, self._total_steps)

    def update(self, gradients: Weights, step: int) -> None:
        """Change the weights by their gradients.

        Args:
            gradients: Of every trainable weight, already clipped.
            step: Steps done before.
        """
        factor = rate_factor(self._settings, step, self._total_steps)
        weights = self._model.trainable()
        for part, rate, names in self._parts:
            part.learning_rate = rate * factor
            changed = part.apply_gradients({n: gradients[n] for n in names}, {n: weights[n] for n in names})
            self._model.network.update(tree_unflatten(list(changed.items())))
        mx.eval(self._model.network.trainable_parameters(), [part.state for part, *_ in self._parts])

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


def flat(part: Any) -> list[tuple[str, mx.array]]:
    """The state of an optimizer by name."""
    found: list[tuple[str, mx.array]] = []
    for name, value in part.state.items():
        if isinstance(value, mx.array):
            found.append((name, value))
        else:
            found += [(f"{name.replace('.', _DOT)}.{inner}", array) for inner, array in tree_flatten(value)]
    return found


def _unflat(state: Mapping[str, mx.array]) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    for name, value in state.items():
        outer, _, inner = name.partition(".")
        if inner:
            whole.setdefault(outer.replace(_DOT, "."), {})[inner] = value
        else:
            whole[outer] = value
    return whole


def clipped(gradients: Weights, max_norm: float) -> tuple[Weights, float]:
    """Gradients scaled down to a norm of at most `max_norm`, and their norm before that."""
    kept, norm = optim.clip_grad_norm(gradients, max_norm)
    return kept, float(norm.item())


def is_finite(*numbers: float) -> bool:
    """True if all of them are."""
    return all(math.isfinite(number) for number in numbers)
