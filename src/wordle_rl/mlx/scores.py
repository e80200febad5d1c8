"""Log-probabilities of the trained tokens of a micro-batch, with logits only where a token is trained on.

A row of 2,000 tokens over a vocabulary of 262,144 has 2 GiB of logits. Here hidden states are computed for all tokens
and logits for those with a loss mask of 1 alone, a piece at a time; a piece is computed again in the backward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from torch import Tensor

from wordle_rl.data.dataset import Example
from wordle_rl.mlx.model import Head, MLXModel
from wordle_rl.train.batch import Batch

_PIECE = 512
"""Tokens whose logits are held at once."""
_SMALL = 4096
"""Up to this many tokens of vocabulary, all logits are held at once."""


@dataclass(slots=True)
class MLXBatch:
    """`train.batch.Batch` as arrays of MLX: B rows, N trained tokens laid end to end.

    Attributes:
        input_ids: Shape (B, T), padded on the right.
        places: Place of the token before each trained one, with all rows laid end to end, shape (N,).
        targets: Ids of the trained tokens, shape (N,).
        rows: The row of each, shape (N,).
        weights: Each token's share in the loss of the step, shape (N,).
        num_rows: B.
        advantages: Shape (N,); None outside of policy gradients.
        sampler_logprobs: Shape (N,); None outside of policy gradients.
        soft_ids: Tokens of each target distribution, shape (N, K); None: targets are tokens.
        soft_probs: Their probabilities, shape (N, K).
        reference_logprobs: Under the weights that training began with, shape (N,); None until they are computed.
    """

    input_ids: mx.array
    places: mx.array
    targets: mx.array
    rows: mx.array
    weights: mx.array
    num_rows: int
    advantages: mx.array | None
    sampler_logprobs: mx.array | None
    soft_ids: mx.array | None
    soft_probs: mx.array | None
    reference_logprobs: mx.array | None = None

    @classmethod
    def of(cls, examples: Sequence[Example], row_weights: Sequence[float], pad_id: int) -> MLXBatch:
        """Lay examples out; arguments as for `train.batch.Batch.of`."""
        laid = Batch.of(examples, row_weights, pad_id)
        rows, columns = laid.trained.nonzero(as_tuple=True)  # column c of `trained` is token c + 1
        return cls(
            input_ids=_array(laid.input_ids),
            places=_array(rows * laid.input_ids.shape[1] + columns),
            targets=_array(laid.targets),
            rows=_array(laid.rows),
            weights=_array(laid.weights),
            num_rows=laid.num_rows,
            advantages=_optional(laid.advantages),
            sampler_logprobs=_optional(laid.sampler_logprobs),
            soft_ids=_optional(laid.soft_ids),
            soft_probs=_optional(laid.soft_probs),
        )


@dataclass(frozen=True, slots=True)
class Scores:
    """Of each trained token, shape (N,), float32.

    Attributes:
        logprobs: Log-probability of the target; where it is a distribution, the expectation under it.
        entropies: Entropy of the policy there, in nats; no gradient.
        right: 1 where the target is the likeliest token; no gradient.
    """

    logprobs: mx.array
    entropies: mx.array
    right: mx.array


def score(model: MLXModel, batch: MLXBatch, temperature: float = 1.0, *, entropy: bool = False) -> Scores:
    """Score the trained tokens.

    Args:
        model: Its current weights.
        batch: The rows.
        temperature: Logits are divided by it, as in sampling.
        entropy: Compute entropies; otherwise they are zeros.
    """
    if not batch.targets.size:
        return Scores(*(mx.zeros((0,)) for _ in range(3)))
    targets = _Targets(batch.targets, batch.soft_ids, batch.soft_probs, temperature, entropy)
    if model.head is None:
        logits = model.logits(batch.input_ids)
        return Scores(*targets.scored(logits.reshape(-1, logits.shape[-1])[batch.places]))
    hidden = model.hidden(batch.input_ids)
    states = hidden.reshape(-1, hidden.shape[-1])[batch.places]  # (N, width)
    if len(states) <= _PIECE or model.config.vocab_size <= _SMALL:
        return Scores(*targets.scored(model.head.apply(states)))
    pieces = [
        _recomputed(model.head, states[first : first + _PIECE], targets.part(first, first + _PIECE))
        for first in range(0, len(states), _PIECE)
    ]
    return Scores(*(mx.concatenate(list(parts)) for parts in zip(*pieces, strict=True)))


@dataclass(frozen=True, slots=True)
class _Targets:
    """What trained tokens are scored by."""

    ids: mx.array
    soft_ids: mx.array | None
    soft_probs: mx.array | None
    temperature: float
    entropy: bool

    def part(self, first: int, end: int) -> _Targets:
        ids, soft_ids, soft_probs = (
            None if values is None else values[first:end] for values in (self.ids, self.soft_ids, self.soft_probs)
        )
        return _Targets(ids, soft_ids, soft_probs, self.temperature, self.entropy)

    def scored(self, logits: mx.array) -> tuple[mx.array, mx.array, mx.array]:
        """The fields of `Scores`, given logits, shape (N, vocabulary)."""
        logits = logits.astype(mx.float32)
        if self.temperature != 1:
            logits = logits / self.temperature
        total = mx.logsumexp(logits, axis=-1)  # (N,)
        if self.soft_ids is None or self.soft_probs is None:
            logprobs = mx.take_along_axis(logits, self.ids[:, None], axis=-1)[:, 0] - total
        else:
            # sum_v q(v) log p(v); the fillers have q = 0
            at_targets = mx.take_along_axis(logits, self.soft_ids, axis=-1) - total[:, None]  # (N, K)
            logprobs = (self.soft_probs * at_targets).sum(axis=-1)
        still = mx.stop_gradient(logits)
        right = (mx.argmax(still, axis=-1) == self.ids).astype(mx.float32)
        entropies = mx.zeros_like(right)
        if self.entropy:
            entropies = mx.stop_gradient(total) - (mx.softmax(still, axis=-1) * still).sum(axis=-1)
        return logprobs, entropies, right


def _recomputed(head: Head, states: mx.array, targets: _Targets) -> tuple[mx.array, mx.array, mx.array]:
    """Scores of some tokens whose logits are not kept for the backward pass."""

    def scored(weights: Any, states: mx.array) -> tuple[mx.array, mx.array, mx.array]:
        head.module.update(weights)
        return targets.scored(head.apply(states))

    found: tuple[mx.array, mx.array, mx.array] = mx.checkpoint(scored)(head.module.trainable_parameters(), states)
    return found


def _array(tensor: Tensor) -> mx.array:
    return mx.array(tensor.numpy())


def _optional(tensor: Tensor | None) -> mx.array | None:
    return None if tensor is None else _array(tensor)
