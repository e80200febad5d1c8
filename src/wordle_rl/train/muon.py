"""Muon for small networks on a CPU: orthogonalise matrices of the same shape in one batch.

torch's Muon works on one matrix at a time, and in bfloat16. Without bfloat16 instructions that is many times slower
than float32 (on an AVX2 core it takes a third of a training step of the embedded model).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class GroupedMuon(torch.optim.Muon):
    """`torch.optim.Muon` with the same options, state and update; only the order of the arithmetic differs.

    Args:
        params: Matrices.
        dtype: Data type of the orthogonalisation.
        options: Options of `torch.optim.Muon`.
    """

    def __init__(self, params: list[torch.nn.Parameter], *, dtype: torch.dtype, **options: Any) -> None:
        super().__init__(params, **options)
        self._dtype = dtype

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]  # no closures
        """Update every matrix that has a gradient."""
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
            # The factor keeps the RMS change of the layer's output the same for tall and square matrices.
            matrix.add_(step.to(matrix.dtype), alpha=-group["lr"] * math.sqrt(max(1.0, rows / columns)))


def orthogonalised(
    matrices: Tensor, num_steps: int, coefficients: tuple[float, float, float], eps: float = 1e-7
) -> Tensor:
    """Approximate the nearest semi-orthogonal matrices: singular values end up between about 0.7 and 1.2.

    Args:
        matrices: Shape (count, rows, columns).
        num_steps: Number of Newton-Schulz iterations.
        coefficients: Coefficients of x, x^3 and x^5 in the iterated polynomial.
        eps: Least norm to divide by.

    Returns:
        Same shape.

    Source: Muon, Jordan et al. 2024.
    """
    a, b, c = coefficients
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices  # (N, short, long): the Gram matrix below is then the small one
    # The iteration converges for singular values below about 1; the Frobenius norm bounds the largest.
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=eps)
    for _ in range(num_steps):
        gram = x @ x.mT
        # a x + (b G + c G^2) x with G = x x^T
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x
