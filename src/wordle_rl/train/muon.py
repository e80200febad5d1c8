"""Muon for small networks and plain processors: matrices of one shape are orthogonalised together.

torch's Muon processes the matrices one by one and in bfloat16, which without bfloat16 arithmetic is many times slower
than float32 (on an AVX2 core, a third of a training step of the embedded model).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class GroupedMuon(torch.optim.Muon):
    """`torch.optim.Muon`, with the same options, state and update; only the order of the arithmetic differs.

    Args:
        dtype: Type the orthogonalisation is computed in.
    """

    def __init__(self, params: list[torch.nn.Parameter], *, dtype: torch.dtype, **options: Any) -> None:
        super().__init__(params, **options)
        self._dtype = dtype

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]  # no closures
        """One step on every matrix that has a gradient."""
        if closure is not None:
            raise ValueError("GroupedMuon takes no closure")
        for group in self.param_groups:
            by_shape: dict[tuple[int, ...], list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape[tuple(parameter.shape)].append(parameter)
            for matrices in by_shape.values():
                self._update(matrices, group)
        return None

    def _update(self, matrices: list[Tensor], group: dict[str, Any]) -> None:
        directions = []
        for matrix in matrices:
            state = self.state[matrix]
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = torch.zeros_like(matrix)
            gradient: Tensor = matrix.grad  # type: ignore[assignment]  # only matrices with one come here
            momentum = state["momentum_buffer"].lerp_(gradient, 1 - group["momentum"])
            directions.append(gradient.lerp(momentum, group["momentum"]) if group["nesterov"] else momentum)
        stacked = torch.stack(directions).to(self._dtype)  # (N, rows, columns)
        steps = orthogonalised(stacked, group["ns_steps"], group["ns_coefficients"], group["eps"])
        rows, columns = matrices[0].shape
        for matrix, step in zip(matrices, steps, strict=True):
            matrix.mul_(1 - group["lr"] * group["weight_decay"])
            matrix.add_(step.to(matrix.dtype), alpha=-group["lr"] * math.sqrt(max(1.0, rows / columns)))


def orthogonalised(
    matrices: Tensor, num_steps: int, coefficients: tuple[float, float, float], eps: float = 1e-7
) -> Tensor:
    """The nearest semi-orthogonal matrices, roughly: singular values end between about 0.7 and 1.2.

    Args:
        matrices: Shape (count, rows, columns).
        num_steps: Newton-Schulz iterations.
        coefficients: Of its polynomial, from the first power to the fifth.
        eps: Least norm to divide by.

    Source: Muon, Jordan et al. 2024.
    """
    a, b, c = coefficients
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices  # (N, short, long)
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=eps)
    for _ in range(num_steps):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x
