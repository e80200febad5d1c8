"""Micro-batches, log-probabilities of their trained tokens, and the losses of `train.loss`, in MLX.

A row of 2,000 tokens over a vocabulary of 262,144 has 2 GiB of logits. So hidden states are computed for all tokens,
but logits only where the loss mask is 1, in pieces that the backward pass recomputes.

Formulas and fields of the losses are those of `train.loss`, so both learners accept the same values; papers and the
reasons for each term are there. N is the number of trained tokens of a micro-batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import mlx.core as mx
from torch import Tensor

from wordle_rl.mlx.model import MLXModel
from wordle_rl.train.example import Example
from wordle_rl.train.loss import CrossEntropy, Loss, PolicyLoss, PreferenceLoss
from wordle_rl.train.micro_batches import Batch

Scored = tuple[mx.array, mx.array, mx.array]
Figures = dict[str, mx.array]
"""Sums over the tokens of a micro-batch, by name. Names that end in `/max` hold maxima."""
_PIECE = 512  # tokens whose logits are held at once
_SMALL = 4096  # vocabulary up to which all logits are held at once


@dataclass(slots=True)
class MLXBatch:
    """`train.micro_batches.Batch` as MLX arrays, with the same names and shapes.

    Instead of `trained` there is `places`, shape (N,): position of the token before each trained one, with all rows end
    to end.
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
        """See `Batch.of`."""
        laid = Batch.of(examples, row_weights, pad_id)
        rows, columns = laid.trained.nonzero(as_tuple=True)  # column c of `trained` is token c + 1
        arrays = {name: getattr(laid, name) for name in cls.__slots__ if hasattr(laid, name)}
        arrays |= {"places": rows * laid.input_ids.shape[1] + columns}
        return cls(**{name: mx.array(a.numpy()) if isinstance(a, Tensor) else a for name, a in arrays.items()})


@dataclass(frozen=True, slots=True)
class Scores:
    """See `train.logprobs.Scores`: shape (N,), float32."""

    logprobs: mx.array
    entropies: mx.array
    right: mx.array


def score(
    model: MLXModel, batch: MLXBatch, temperature: float = 1.0, *, entropy: bool = False, bar: mx.array | None = None
) -> Scores:
    """Score the trained tokens. `temperature` divides the logits; without `entropy`, entropies are zeros; `bar_of`."""
    if not batch.targets.size:
        return Scores(*(mx.zeros((0,)) for _ in range(3)))
    targets = (batch.targets, batch.soft_ids, batch.soft_probs)
    if model.head is None:
        logits = model.logits(batch.input_ids)
        flat = logits.reshape(-1, logits.shape[-1])[batch.places]  # (N, vocabulary)
        return Scores(*_scored(flat, *targets, temperature=temperature, entropy=entropy, bar=bar))
    head, hidden = model.head, model.hidden(batch.input_ids)
    states = hidden.reshape(-1, hidden.shape[-1])[batch.places]  # (N, width)
    if len(states) <= _PIECE or model.config.vocab_size <= _SMALL:
        return Scores(*_scored(head.apply(states), *targets, temperature=temperature, entropy=entropy, bar=bar))

    def of_piece(targets: tuple[Any, Any, Any], weights: Any, states: mx.array) -> Scored:
        head.module.update(weights)  # an argument of the function, so that its gradient survives the checkpoint
        return _scored(head.apply(states), *targets, temperature=temperature, entropy=entropy, bar=bar)

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
    bar: mx.array | None,
) -> Scored:
    # The fields of `Scores` from logits, shape (N, vocabulary).
    logits = logits.astype(mx.float32)
    if temperature != 1:
        logits = logits / temperature
    if bar is not None:
        logits = logits + bar
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


def loss_of(loss: Loss, scores: Scores, batch: MLXBatch) -> tuple[mx.array, Figures]:
    """Return the contribution of a micro-batch to the loss, and sums for logging."""
    if isinstance(loss, CrossEntropy):
        return -(batch.weights * scores.logprobs).sum(), {"mean_token_accuracy": scores.right.sum()}
    if isinstance(loss, PolicyLoss):
        return _policy_loss_of(loss, scores, batch)
    if isinstance(loss, PreferenceLoss):
        return _preference_loss_of(loss, scores, batch)
    raise TypeError(f"MLX has no {type(loss).__name__}; add it to wordle_rl.mlx.losses, or train with torch")


def policy_loss(
    logprobs: mx.array,
    old_logprobs: mx.array,
    advantages: mx.array,
    weights: mx.array,
    *,
    epsilon: float = 0.2,
    epsilon_high: float = 0.28,
    reference_logprobs: mx.array | None = None,
    beta: float = 0.0,
) -> tuple[mx.array, Figures]:
    """See `train.loss.policy_loss`."""
    ratio = mx.exp(logprobs - old_logprobs)  # (N,)
    clipped = mx.clip(ratio, 1 - epsilon, 1 + epsilon_high)
    losses = -mx.minimum(ratio * advantages, clipped * advantages)
    still = mx.stop_gradient(ratio)  # (N,)
    figures = {
        "clip_ratio/low_mean": ((still < 1 - epsilon) & (advantages < 0)).sum(),
        "clip_ratio/high_mean": ((still > 1 + epsilon_high) & (advantages > 0)).sum(),
    }
    if beta and reference_logprobs is not None:
        divergence = kl_estimate(reference_logprobs - logprobs)
        losses = losses + beta * ratio * divergence
        figures["kl"] = mx.stop_gradient(divergence).sum()
    return (weights * losses).sum(), figures


def kl_estimate(log_ratio: mx.array) -> mx.array:
    """Estimate KL(q || p) (k3) at tokens sampled from q, given log p - log q; same shape."""
    return mx.exp(log_ratio) - 1 - log_ratio


def preference_loss(log_ratios: mx.array, *, beta: float) -> mx.array:
    """Return the loss per pair, shape (pairs,), of log-ratios to the reference, shape (pairs, 2), chosen first."""
    margin = log_ratios[:, 0] - log_ratios[:, 1]  # (pairs,)
    return mx.logaddexp(mx.zeros_like(margin), -beta * margin)  # -log sigmoid


def _policy_loss_of(loss: PolicyLoss, scores: Scores, batch: MLXBatch) -> tuple[mx.array, Figures]:
    policy, advantages = mx.stop_gradient(scores.logprobs), batch.advantages
    assert advantages is not None
    assert batch.sampler_logprobs is not None
    log_ratio = policy - batch.sampler_logprobs  # 0 except for the sampler's other kernels and caches
    to_sampler = mx.exp(log_ratio)
    if loss.importance_cap and not loss.off_policy:
        advantages = advantages * mx.minimum(to_sampler, loss.importance_cap)
    value, figures = policy_loss(
        scores.logprobs,
        batch.sampler_logprobs if loss.off_policy else policy,
        advantages,
        batch.weights,
        epsilon=loss.epsilon,
        epsilon_high=loss.epsilon_high,
        reference_logprobs=batch.reference_logprobs,
        beta=loss.beta,
    )
    return value, {
        **figures,
        "importance_ratio/mean": to_sampler.sum(),
        "importance_ratio/max": to_sampler.max() if to_sampler.size else mx.zeros(()),
        "sampler_kl": kl_estimate(log_ratio).sum(),
        "entropy": scores.entropies.sum(),
    }


def _preference_loss_of(loss: PreferenceLoss, scores: Scores, batch: MLXBatch) -> tuple[mx.array, Figures]:
    assert batch.reference_logprobs is not None
    of_tokens = scores.logprobs - batch.reference_logprobs  # (N,)
    log_ratios = mx.zeros((batch.num_rows,), of_tokens.dtype).at[batch.rows].add(of_tokens).reshape(-1, 2)  # (pairs, 2)
    weight = batch.weights[0] if batch.weights.size else mx.zeros(())
    margins = mx.stop_gradient(loss.beta * (log_ratios[:, 0] - log_ratios[:, 1]))
    figures = {"rewards/margins": margins.sum(), "rewards/accuracies": (margins > 0).sum()}
    return weight * preference_loss(log_ratios, beta=loss.beta).sum(), figures
