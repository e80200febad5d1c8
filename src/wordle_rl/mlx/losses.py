"""The losses of `train.loss` in MLX: the same formulas and fields, so both learners accept the same values.

    CrossEntropy     -log p, or -sum_v teacher(v) log p(v)
    PolicyLoss       -min(ratio A, clip(ratio) A) + beta KL; the ratio is to the policy itself
    PreferenceLoss   logistic of the difference of two replies

N is the number of trained tokens of a micro-batch. Papers and the reasons for each term are in `train.loss`.
"""

from __future__ import annotations

from typing import Literal

import mlx.core as mx

from wordle_rl.mlx.scores import MLXBatch, Scores
from wordle_rl.train.loss import CrossEntropy, Loss, PolicyLoss, PreferenceLoss

Figures = dict[str, mx.array]
"""Sums over the tokens of a micro-batch, by name. Names that end in `/max` hold maxima."""


def loss_of(loss: Loss, scores: Scores, batch: MLXBatch) -> tuple[mx.array, Figures]:
    """Return the contribution of a micro-batch to the loss, and sums for logging.

    Raises:
        TypeError: If MLX does not implement the loss.
    """
    if isinstance(loss, CrossEntropy):
        return cross_entropy(scores.logprobs, batch.weights), {"mean_token_accuracy": scores.right.sum()}
    if isinstance(loss, PolicyLoss):
        return _policy_loss_of(loss, scores, batch)
    if isinstance(loss, PreferenceLoss):
        return _preference_loss_of(loss, scores, batch)
    raise TypeError(f"MLX has no {type(loss).__name__}; add it to wordle_rl.mlx.losses, or train with torch")


def cross_entropy(logprobs: mx.array, weights: mx.array) -> mx.array:
    """Weighted negative log-likelihood of tokens, both of shape (N,)."""
    return -(weights * logprobs).sum()


def policy_loss(
    logprobs: mx.array,
    old_logprobs: mx.array,
    advantages: mx.array,
    weights: mx.array,
    *,
    epsilon: float = 0.2,
    epsilon_high: float = 0.28,
    rows: mx.array | None = None,
    num_rows: int = 0,
    reference_logprobs: mx.array | None = None,
    beta: float = 0.0,
) -> tuple[mx.array, Figures]:
    """Compute the clipped policy-gradient loss with a KL penalty, like `train.loss.policy_loss`.

    `num_rows` is needed if `rows` is given.
    """
    log_ratio = logprobs - old_logprobs  # (N,)
    if rows is not None:
        log_ratio = row_means(log_ratio, rows, num_rows)[rows]
    ratio = mx.exp(log_ratio)
    clipped = mx.clip(ratio, 1 - epsilon, 1 + epsilon_high)
    losses = -mx.minimum(ratio * advantages, clipped * advantages)
    still = mx.stop_gradient(ratio)  # (N,)
    # Clipping acts only where the advantage pushes the ratio further out.
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


def preference_loss(
    log_ratios: mx.array, *, beta: float, kind: Literal["sigmoid", "hinge", "ipo"] = "sigmoid"
) -> mx.array:
    """Return the loss per pair, shape (pairs,), of log-ratios to the reference, shape (pairs, 2), chosen first."""
    margin = log_ratios[:, 0] - log_ratios[:, 1]  # (pairs,)
    if kind == "hinge":
        return mx.maximum(1 - beta * margin, 0)
    if kind == "ipo":
        return mx.square(margin - 1 / (2 * beta))
    return mx.logaddexp(mx.zeros_like(margin), -beta * margin)  # -log sigmoid


def row_sums(values: mx.array, rows: mx.array, num_rows: int) -> mx.array:
    """Sum values by row, shape (rows,)."""
    return mx.zeros((num_rows,), values.dtype).at[rows].add(values)


def row_means(values: mx.array, rows: mx.array, num_rows: int) -> mx.array:
    """Average values by row, shape (rows,); 0 for empty rows."""
    return row_sums(values, rows, num_rows) / mx.maximum(row_sums(mx.ones_like(values), rows, num_rows), 1)


def _policy_loss_of(loss: PolicyLoss, scores: Scores, batch: MLXBatch) -> tuple[mx.array, Figures]:
    policy, advantages = mx.stop_gradient(scores.logprobs), batch.advantages
    assert advantages is not None
    assert batch.sampler_logprobs is not None
    log_ratio = policy - batch.sampler_logprobs  # 0 except for the sampler's other kernels and caches
    to_sampler = mx.exp(log_ratio)
    if loss.importance_cap:
        advantages = advantages * mx.minimum(to_sampler, loss.importance_cap)
    value, figures = policy_loss(
        scores.logprobs,
        policy,
        advantages,
        batch.weights,
        epsilon=loss.epsilon,
        epsilon_high=loss.epsilon_high,
        rows=batch.rows if loss.by_sequence else None,
        num_rows=batch.num_rows,
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
    per_row = row_means if loss.kind == "ipo" else row_sums
    log_ratios = per_row(scores.logprobs - batch.reference_logprobs, batch.rows, batch.num_rows).reshape(-1, 2)
    share = batch.weights[0] if batch.weights.size else mx.zeros(())
    value = share * preference_loss(log_ratios, beta=loss.beta, kind=loss.kind).sum()
    if loss.sft_weight:
        chosen = row_means(scores.logprobs, batch.rows, batch.num_rows)[::2]  # (pairs,)
        value = value - loss.sft_weight * share * chosen.sum()
    margins = mx.stop_gradient(loss.beta * (log_ratios[:, 0] - log_ratios[:, 1]))
    return value, {"rewards/margins": margins.sum(), "rewards/accuracies": (margins > 0).sum()}
