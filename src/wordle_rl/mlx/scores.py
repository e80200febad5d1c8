"""Log-probabilities of a micro-batch's trained tokens, with logits only for those.

A row of 2,000 tokens over a vocabulary of 262,144 has 2 GiB of logits. So hidden states are computed for all tokens,
but logits only where the loss mask is 1, in pieces that the backward pass recomputes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import mlx.core as mx
from torch import Tensor

from wordle_rl.data.dataset import Example
from wordle_rl.mlx.model import MLXModel
from wordle_rl.train.micro_batches import Batch

Scored = tuple[mx.array, mx.array, mx.array]
_PIECE = 512  # tokens whose logits are held at once
_SMALL = 4096  # vocabulary up to which all logits are held at once


@dataclass(slots=True)
class MLXBatch:
    """`train.batch.Batch` as MLX arrays: B rows, and N trained tokens end to end.

    Names and shapes are the same. Instead of `trained` there is `places`, shape (N,): position of the token before each
    trained one, with all rows end to end.
    """

    input_ids: mx.array
    places: mx.array
    targets: mx.array
    rows: mx.array
    weights: mx.array
    num_rows: int
    advantages: mx.array | None = None
    sampler_logprobs: mx.array | None = None
    soft_ids: mx.array | None = None
    soft_probs: mx.array | None = None
    reference_logprobs: mx.array | None = None

    @classmethod
    def of(cls, examples: Sequence[Example], row_weights: Sequence[float], pad_id: int) -> MLXBatch:
        """Build a batch from examples; arguments as in `train.batch.Batch.of`."""
        laid = Batch.of(examples, row_weights, pad_id)
        rows, columns = laid.trained.nonzero(as_tuple=True)  # column c of `trained` is token c + 1
        arrays = {name: getattr(laid, name) for name in cls.__slots__ if hasattr(laid, name)}
        arrays |= {"places": rows * laid.input_ids.shape[1] + columns}
        return cls(**{name: mx.array(a.numpy()) if isinstance(a, Tensor) else a for name, a in arrays.items()})


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of each trained token, shape (N,), float32.

    Attributes:
        logprobs: Log-probability of the target; for a target distribution, its expectation.
        entropies: Entropy of the policy in nats; no gradient.
        right: 1 where the target is the likeliest token; no gradient.
    """

    logprobs: mx.array
    entropies: mx.array
    right: mx.array


def score(model: MLXModel, batch: MLXBatch, temperature: float = 1.0, *, entropy: bool = False) -> Scores:
    """Score the trained tokens.

    Args:
        model: The model with its current weights.
        batch: The rows.
        temperature: Divides the logits, as in sampling.
        entropy: Compute entropies; otherwise they are zeros.
    """
    if not batch.targets.size:
        return Scores(*(mx.zeros((0,)) for _ in range(3)))
    targets = (batch.targets, batch.soft_ids, batch.soft_probs)
    if model.head is None:
        logits = model.logits(batch.input_ids)
        flat = logits.reshape(-1, logits.shape[-1])[batch.places]  # (N, vocabulary)
        return Scores(*_scored(flat, *targets, temperature=temperature, entropy=entropy))
    head, hidden = model.head, model.hidden(batch.input_ids)
    states = hidden.reshape(-1, hidden.shape[-1])[batch.places]  # (N, width)
    if len(states) <= _PIECE or model.config.vocab_size <= _SMALL:
        return Scores(*_scored(head.apply(states), *targets, temperature=temperature, entropy=entropy))

    def of_piece(targets: tuple[Any, Any, Any], weights: Any, states: mx.array) -> Scored:
        head.module.update(weights)  # an argument of the function, so that its gradient survives the checkpoint
        return _scored(head.apply(states), *targets, temperature=temperature, entropy=entropy)

    found = []
    for first in range(0, len(states), _PIECE):
        here = slice(first, first + _PIECE)
        ids, soft_ids, soft_probs = (None if values is None else values[here] for values in targets)
        of_these = partial(of_piece, (ids, soft_ids, soft_probs))
        # The backward pass recomputes the logits of a piece.
        found.append(mx.checkpoint(of_these)(head.module.trainable_parameters(), states[here]))
    return Scores(*(mx.concatenate(list(parts)) for parts in zip(*found, strict=True)))


def _scored(
    logits: mx.array,
    targets: mx.array,
    soft_ids: mx.array | None,
    soft_probs: mx.array | None,
    *,
    temperature: float,
    entropy: bool,
) -> Scored:
    # The fields of `Scores` from logits, shape (N, vocabulary).
    logits = logits.astype(mx.float32)
    if temperature != 1:
        logits = logits / temperature
    total = mx.logsumexp(logits, axis=-1)  # (N,)
    if soft_ids is None or soft_probs is None:
        logprobs = mx.take_along_axis(logits, targets[:, None], axis=-1)[:, 0] - total
    else:
        # sum_v q(v) log p(v); padding has q = 0
        logprobs = (soft_probs * (mx.take_along_axis(logits, soft_ids, axis=-1) - total[:, None])).sum(axis=-1)
    still = mx.stop_gradient(logits)
    right = (mx.argmax(still, axis=-1) == targets).astype(mx.float32)
    entropies = mx.zeros_like(right)
    if entropy:
        entropies = mx.stop_gradient(total) - (mx.softmax(still, axis=-1) * still).sum(axis=-1)
    return logprobs, entropies, right
