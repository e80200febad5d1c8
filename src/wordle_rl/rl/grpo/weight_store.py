"""The weights that a training changes, on disk and back, for any library that holds them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

import torch
from safetensors.torch import load_file, save_file
from torch import nn


class WeightStore(Protocol):
    """The weights that a training changes, on disk and back."""

    def save(self, path: Path, metadata: Mapping[str, str]) -> None:
        """Write the current weights as safetensors with these metadata."""

    def load(self, path: Path) -> None:
        """Take the weights of a file."""

    def interpolate(self, start: Path, end: Path, alpha: float) -> None:
        """Take start + alpha x (end - start) of the weights of two files."""


class TorchWeights:
    """Trainable weights of a torch module, tied ones once."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model

    def save(self, path: Path, metadata: Mapping[str, str]) -> None:
        """Write the current weights."""
        save_file({name: weight.detach().contiguous() for name, weight in self._named()}, path, dict(metadata))

    @torch.no_grad()
    def load(self, path: Path) -> None:
        """Take the weights of a file."""
        stored = load_file(path)
        for name, weight in self._named():
            weight.copy_(stored[name])

    @torch.no_grad()
    def interpolate(self, start: Path, end: Path, alpha: float) -> None:
        """Take start + alpha x (end - start) of the weights of two files."""
        first, last = load_file(start), load_file(end)
        for name, weight in self._named():
            a, b = (tensors[name].to(weight.device, weight.dtype) for tensors in (first, last))
            weight.copy_(torch.lerp(a, b, alpha))

    def _named(self) -> Iterator[tuple[str, nn.Parameter]]:
        return ((name, weight) for name, weight in self._model.named_parameters() if weight.requires_grad)
