"""The next token of every row, from its logits: temperature, limits to listed words, the draw itself.

Top-p or top-k would go into `draw`, between the temperature and `pick`. Training has no such setting: its loss divides
the logits by the temperature and cuts nothing off. Tokens drawn from a cut distribution would be scored by the whole
one, and every importance ratio would be wrong. Servers with a default of their own are asked for top-p 1. A language
model as teacher may have its own (`LLMTeacherSettings.top_p`), since its guesses are only imitated.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from wordle_rl.config.training import SamplingSettings
from wordle_rl.policy.constrain import State, WordConstraint

_BLOCK = 512
"""Columns that `pick` sums before it looks at single ones."""


def draw(logits: Tensor, settings: SamplingSettings, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw one token per row of logits, shape (rows, vocabulary); return ids and log-probabilities, shape (rows,)."""
    temperature = settings.temperature
    if temperature == 0:
        chosen = logits.argmax(dim=-1)
        return chosen, logits.log_softmax(-1).gather(1, chosen[:, None])[:, 0]
    # The chosen token's logarithm is taken, not every token's: below exp(-87), where low temperatures leave much of a
    # vocabulary, torch exponentiates `log_softmax` at a hundredth of its usual speed.
    probabilities = (logits / temperature).softmax(-1)
    chosen = pick(probabilities, generator)[:, None]
    return chosen[:, 0], probabilities.gather(1, chosen)[:, 0].log()


def limited(logits: Tensor, constraint: WordConstraint, states: Sequence[State | None], running: Tensor) -> Tensor:
    """Return logits, shape (rows, vocabulary), with minus infinity at forbidden tokens of running rows."""
    allowed = [constraint.allowed(state) if on else None for state, on in zip(states, running.tolist(), strict=True)]
    limited = [row for row, ids in enumerate(allowed) if ids is not None]
    if not limited:
        return logits
    # One mask for all rows: a scatter for each row would cost more than the forward pass of a small model.
    kept = [ids for ids in allowed if ids is not None]
    mask = torch.zeros_like(logits)
    mask[limited] = float("-inf")
    rows = np.repeat(limited, [len(ids) for ids in kept])
    mask[torch.from_numpy(rows), torch.from_numpy(np.concatenate(kept))] = 0.0
    return logits + mask


def pick(probabilities: Tensor, generator: torch.Generator) -> Tensor:
    """Draw one column per row, shape (rows,), from `probabilities`, shape (rows, columns); never one of zero."""
    if probabilities.device.type != "cpu":
        return torch.multinomial(probabilities, 1, generator=generator)[:, 0]
    # On a CPU, `multinomial` draws a random number per column, which takes a tenth of a small model's time. Inverting
    # the cumulative distribution needs one number per row: of blocks of columns first, then within one block.
    rows, columns = probabilities.shape
    point = torch.rand(rows, 1, dtype=torch.float64, generator=generator)
    if columns <= _BLOCK:
        return _invert(probabilities, point)[0][:, 0]
    blocks = F.pad(probabilities, (0, -columns % _BLOCK)).view(rows, -1, _BLOCK)
    block, rest = _invert(blocks.sum(-1), point)
    column, _ = _invert(blocks.take_along_dim(block[:, :, None], 1)[:, 0], rest)
    return (block * _BLOCK + column)[:, 0]


def _invert(weights: Tensor, point: Tensor) -> tuple[Tensor, Tensor]:
    """Return the column in which the cumulative weights of each row pass `point` of their total, and how far into it.

    Shapes: (rows, columns) and (rows, 1), then twice (rows, 1); points are fractions from 0 to 1.
    """
    totals = weights.cumsum(dim=-1, dtype=torch.float64)
    end = totals[:, -1:]
    if not end.isfinite().all():
        raise RuntimeError("probabilities are not finite: the weights are broken; go back to a checkpoint")
    point = torch.minimum(point * end, end.nextafter(torch.zeros_like(end)))  # rounding must not reach the end
    column = torch.searchsorted(totals, point, right=True)
    weight = weights.gather(1, column)
    return column, ((point - totals.gather(1, column)) / weight + 1).clamp(0, 1)
