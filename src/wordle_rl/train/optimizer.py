"""Optimizers (AdamW, Muon), learning rate schedules, and the precision of training.

torch's Muon works on one matrix at a time, and in bfloat16. Without bfloat16 instructions that is many times slower
than float32: 28 matrices of 64 to 384 rows take torch's 0.92 s of an AVX2 core a step and `GroupedMuon` 0.09 (three
pairs, one thread). It orthogonalises matrices of the same shape in one batch.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from wordle_rl.config.training import ADAM_BETAS, OptimizerSettings, Precision
from wordle_rl.policy.adapters import adapters_to_float32
from wordle_rl.policy.device import autocasts_to_bf16

Part = tuple[int, int]
"""A part of a learning rate schedule: its number, from 0, and the number of equal parts."""

MakeOptimizer = Callable[[nn.Module, OptimizerSettings], Optimizer]


def make_optimizer(model: nn.Module, settings: OptimizerSettings) -> Optimizer:
    """Create the optimizer of the settings over the trainable parameters."""
    adapters_to_float32(model)  # of a 4-bit model; others stay as they are
    if settings.muon_learning_rate is not None:
        return MuonWithAdamW(model, settings)
    return _adamw([parameter for parameter in model.parameters() if parameter.requires_grad], settings)


def set_rate(
    optimizer: Optimizer, settings: OptimizerSettings, step: int, total_steps: int, part: Part = (0, 1)
) -> float:
    """Set the learning rate for the step after `step` of `total_steps` steps in a part of the schedule.

    Return that of the first parameter group.
    """
    number, parts = part
    factor = rate_factor(settings, number * total_steps + step, parts * total_steps)
    for group in optimizer.param_groups:
        group["lr"] = group.setdefault("initial_lr", group["lr"]) * factor
    return float(optimizer.param_groups[0]["lr"])


def _adamw(parameters: list[nn.Parameter], settings: OptimizerSettings) -> AdamW:
    # Fused, it reads and writes each weight once: a third of the time on a CPU.
    return AdamW(parameters, lr=settings.learning_rate, betas=ADAM_BETAS, weight_decay=0.0, fused=True)


def rate_factor(settings: OptimizerSettings, step: int, total_steps: int) -> float:
    """Return the learning rate at a step as a fraction of its peak, 0 to 1.

    Examples:
        >>> settings = OptimizerSettings(warmup=0.1, schedule="linear")
        >>> [round(rate_factor(settings, step, 20), 2) for step in (0, 1, 2, 11)]
        [0.5, 1.0, 1.0, 0.5]
    """
    warmup = round(settings.warmup if settings.warmup >= 1 else settings.warmup * total_steps)
    if step < warmup:
        return (step + 1) / warmup
    done = min(1.0, (step - warmup) / max(1, total_steps - warmup))
    if settings.schedule == "constant":
        return 1.0
    if settings.schedule == "linear":
        return 1.0 - done
    return 0.5 * (1.0 + math.cos(done * math.pi))  # cosine


def wants_bf16(precision: Precision) -> bool:
    """True to train under bfloat16 autocast; `auto` asks the device."""
    if precision != "auto":
        return precision == "bf16"
    return autocasts_to_bf16()


class MuonWithAdamW(Optimizer):
    """Muon for the weight matrices of the layers; AdamW for embeddings, head, norms and biases.

    It behaves as one optimizer: the parameter groups of both, one state dict, one step.
    """

    def __init__(self, model: nn.Module, settings: OptimizerSettings) -> None:
        words: list[nn.Module] = [module for module in model.modules() if isinstance(module, nn.Embedding)]
        if isinstance(head := getattr(model, "get_output_embeddings", lambda: None)(), nn.Module):
            words.append(head)
        of_words = {id(parameter) for module in words for parameter in module.parameters()}
        matrices: list[nn.Parameter] = []
        rest: list[nn.Parameter] = []
        for parameter in model.parameters():
            if parameter.requires_grad:
                (matrices if parameter.ndim == 2 and id(parameter) not in of_words else rest).append(parameter)
        self._parts: list[Optimizer] = []
        if matrices:
            muon = GroupedMuon(
                matrices,
                lr=settings.muon_learning_rate,
                momentum=0.95,
                weight_decay=0.0,
                dtype=torch.bfloat16 if wants_bf16("auto") else torch.float32,
            )
            self._parts.append(muon)
        if rest:  # empty with adapters, which are all matrices
            self._parts.append(_adamw(rest, settings))
        super().__init__([*matrices, *rest], {})
        self.param_groups = [group for part in self._parts for group in part.param_groups]

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]  # no closures
        """Step both optimizers."""
        if closure is not None:
            raise ValueError("MuonWithAdamW takes no closure")
        for part in self._parts:
            part.step()
        return None

    def state_dict(self) -> dict[str, Any]:
        """Return the states of both optimizers."""
        return {"parts": [part.state_dict() for part in self._parts]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the states of both optimizers."""
        for part, state in zip(self._parts, state_dict["parts"], strict=True):
            part.load_state_dict(state)
        # torch replaces the group objects when it loads. Point to the new ones, or `set_rate` would change dead ones.
        self.param_groups = [group for part in self._parts for group in part.param_groups]


class GroupedMuon(torch.optim.Muon):
    """`torch.optim.Muon` with the same options, state and update; only the order of the arithmetic differs."""

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
        matrices: Shape (count, rows, columns), like the result.
        coefficients: Coefficients of x, x^3 and x^5 in the iterated polynomial (Newton-Schulz).

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
