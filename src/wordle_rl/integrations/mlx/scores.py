"""Log-probabilities of chosen tokens, with logits only where a loss needs them.

A row of 2,000 tokens over a vocabulary of 262,144 has 2 GiB of logits. Here hidden states are computed for all tokens
and logits for those with a loss mask of 1 alone, a piece at a time; a piece is computed again in the backward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np

from wordle_rl.integrations.mlx.model import Head, MLXModel

_PIECE = 512
"""Tokens whose logits are held at once."""
_SMALL = 4096
"""Up to this many tokens of vocabulary, all logits are held at once."""


@dataclass(frozen=True)
class Chosen:
    """Rows of tokens, and which of their tokens have a loss: N of them in all, row by row.

    Attributes:
        tokens: Shape (B, T), padded on the right.
        places: Place of the token before each, in the rows laid end to end, shape (N,).
        targets: Their ids, shape (N,).
        rows: Row of each, shape (N,).
        columns: Place of each in its row without padding, shape (N,).
    """

    tokens: mx.array
    places: mx.array
    targets: mx.array
    rows: np.ndarray[Any, np.dtype[np.int64]]
    columns: np.ndarray[Any, np.dtype[np.int64]]

    @property
    def count(self) -> int:
        """Number of tokens with a loss."""
        return len(self.rows)


def choose(rows: Sequence[Sequence[int]], masks: Sequence[Sequence[int]], pad_id: int) -> Chosen:
    """Lay rows out for a forward pass.

    Args:
        rows: Token ids of each.
        masks: Loss mask of each, 1 on tokens with a loss; that of a first token is not looked at.
        pad_id: Fills rows up.
    """
    width = max(len(row) for row in rows)
    tokens = np.full((len(rows), width), pad_id, dtype=np.int32)
    mask = np.zeros((len(rows), width), dtype=bool)
    for place, (row, row_mask) in enumerate(zip(rows, masks, strict=True)):
        tokens[place, : len(row)] = row
        mask[place, : len(row)] = row_mask
    mask[:, 0] = False
    row_of, column_of = np.nonzero(mask)
    return Chosen(
        tokens=mx.array(tokens),
        places=mx.array(row_of * width + column_of - 1),
        targets=mx.array(tokens[row_of, column_of]),
        rows=row_of,
        columns=column_of,
    )


@dataclass(frozen=True)
class Scores:
    """Of each chosen token, shape (N,), float32.

    Attributes:
        logprobs: Log-probability.
        entropies: Entropy of the distribution it belongs to, in nats; no gradient.
        right: 1 where it is the likeliest token; no gradient.
    """

    logprobs: mx.array
    entropies: mx.array
    right: mx.array


def score(model: MLXModel, chosen: Chosen, temperature: float = 1.0) -> Scores:
    """Score the chosen tokens under the model.

    Args:
        model: Its current weights.
        chosen: What is scored.
        temperature: Logits are divided by it, as in sampling.
    """
    if model.head is None:
        logits = model.logits(chosen.tokens)
        flat = logits.reshape(-1, logits.shape[-1])[chosen.places]  # (N, vocabulary)
        return Scores(*_scored(flat, chosen.targets, temperature))
    hidden = model.hidden(chosen.tokens)
    flat = hidden.reshape(-1, hidden.shape[-1])[chosen.places]  # (N, width)
    if chosen.count <= _PIECE or model.config.vocab_size <= _SMALL:
        return Scores(*_scored(model.head.apply(flat), chosen.targets, temperature))
    pieces = [
        _piece(model.head, flat[first : first + _PIECE], chosen.targets[first : first + _PIECE], temperature)
        for first in range(0, chosen.count, _PIECE)
    ]
    return Scores(*(mx.concatenate(list(parts)) for parts in zip(*pieces, strict=True)))


def _piece(head: Head, hidden: mx.array, targets: mx.array, temperature: float) -> tuple[mx.array, mx.array, mx.array]:
    """Scores of some tokens whose logits are not kept for the backward pass."""

    def scored(weights: Any, states: mx.array) -> tuple[mx.array, mx.array, mx.array]:
        head.module.update(weights)
        return _scored(head.apply(states), targets, temperature)

    found: tuple[mx.array, mx.array, mx.array] = mx.checkpoint(scored)(head.module.trainable_parameters(), hidden)
    return found


def _scored(logits: mx.array, targets: mx.array, temperature: float) -> tuple[mx.array, mx.array, mx.array]:
    logits = logits.astype(mx.float32)
    if temperature != 1:
        logits = logits / temperature
    total = mx.logsumexp(logits, axis=-1)  # (N,)
    logprobs = mx.take_along_axis(logits, targets[:, None], axis=-1)[:, 0] - total
    still = mx.stop_gradient(logits)
    still_total = mx.stop_gradient(total)
    entropies = still_total - (mx.exp(still - still_total[:, None]) * still).sum(axis=-1)
    right = (mx.argmax(still, axis=-1) == targets).astype(mx.float32)
    return logprobs, entropies, right
