"""The losses: cross-entropy of SFT, and GRPO's with the log-probabilities that the sampler stored.

    ratio  = exp(policy_logprobs - sampler_logprobs), per token or per sequence (GSPO)
    loss   = - sum of weight x min(ratio x advantage, clip(ratio, 1 - epsilon, 1 + epsilon_high) x advantage)
             + sum of weight x beta x ratio x KL to the reference (k3: exp(d) - d - 1 with d = reference - policy)

The ratio before the KL penalty makes its gradient that of the reverse KL divergence without bias, as in TRL.

The weights of a step's tokens depend on grpo.loss_type alone, so that micro-batches add up to the loss of the step:
`dapo` 1 / tokens of the step, `grpo` 1 / (tokens of the row x rows), `dr_grpo` 1 / (rows x longest completion).

Source: GRPO, arXiv:2402.03300; Dr. GRPO, arXiv:2503.20783; DAPO, arXiv:2503.14476; GSPO, arXiv:2507.18071.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import mlx.core as mx
import numpy as np


@dataclass(frozen=True)
class LossTerms:
    """Numbers of each token with a loss, shape (N,), float32, besides the policy's own.

    Attributes:
        advantages: Its turn's advantage.
        sampler_logprobs: What it was drawn with.
        weights: Its part in the loss of the step.
        rows: Its row, 0 to the number of rows - 1, rising.
        reference_logprobs: Under the reference; None: no KL penalty.
    """

    advantages: mx.array
    sampler_logprobs: mx.array
    weights: mx.array
    rows: mx.array
    reference_logprobs: mx.array | None = None


@dataclass(frozen=True)
class LossFigures:
    """Sums over the tokens of a micro-batch, and their number.

    Attributes:
        clipped_low: Tokens whose ratio fell below the clip range and had a negative advantage.
        clipped_high: Tokens whose ratio rose above it and had a positive advantage.
        kl: KL divergence to the reference.
        largest_ratio: The largest ratio.
    """

    clipped_low: mx.array
    clipped_high: mx.array
    kl: mx.array
    largest_ratio: mx.array


def grpo_loss(
    policy_logprobs: mx.array,
    terms: LossTerms,
    *,
    epsilon: float,
    epsilon_high: float,
    beta: float = 0.0,
    by_sequence: bool = False,
) -> tuple[mx.array, LossFigures]:
    """The loss of some of a step's tokens; those of all micro-batches add up to that of the step.

    Args:
        policy_logprobs: Of each token, shape (N,).
        terms: What else is known of each.
        epsilon: Lower clip range.
        epsilon_high: Upper clip range.
        beta: Weight of the KL penalty.
        by_sequence: One ratio for each row: the geometric mean of its tokens'.
    """
    log_ratio = policy_logprobs - terms.sampler_logprobs
    if by_sequence:
        log_ratio = _row_means(log_ratio, terms.rows)[terms.rows]
    ratio = mx.exp(log_ratio)
    clipped = mx.clip(ratio, 1 - epsilon, 1 + epsilon_high)
    losses = -mx.minimum(ratio * terms.advantages, clipped * terms.advantages)
    kl = mx.zeros(())
    if beta and terms.reference_logprobs is not None:
        distance = terms.reference_logprobs - policy_logprobs
        divergence = mx.exp(distance) - distance - 1
        losses = losses + beta * ratio * divergence
        kl = mx.stop_gradient(divergence.sum())
    still = mx.stop_gradient(ratio)
    figures = LossFigures(
        clipped_low=((still < 1 - epsilon) & (terms.advantages < 0)).sum(),
        clipped_high=((still > 1 + epsilon_high) & (terms.advantages > 0)).sum(),
        kl=kl,
        largest_ratio=still.max(),
    )
    return (losses * terms.weights).sum(), figures


def _row_means(values: mx.array, rows: mx.array) -> mx.array:
    """Mean of the values of each row, shape (rows,)."""
    num_rows = int(rows.max().item()) + 1
    sums = mx.zeros((num_rows,)).at[rows].add(values)
    counts = mx.zeros((num_rows,)).at[rows].add(mx.ones_like(values))
    return sums / mx.maximum(counts, 1)


def token_weights(
    masks: Sequence[Sequence[int]], num_rows: int, loss_type: Literal["grpo", "dr_grpo", "dapo"], longest: int
) -> list[float]:
    """The part of a trained token of each row in the loss of the step; 0.0 for rows without any.

    Args:
        masks: Loss mask of every row of the step.
        num_rows: Rows that are not blank.
        loss_type: How tokens are summed up.
        longest: Token limit of a completion.

    Examples:
        >>> [round(weight, 3) for weight in token_weights([[1, 1, 0], [0, 1, 0]], 2, "grpo", 8)]
        [0.25, 0.5]
    """
    counts = np.array([sum(mask) for mask in masks])
    total = max(int(counts.sum()), 1)
    if loss_type == "dapo":
        return [1.0 / total] * len(masks)
    if loss_type == "dr_grpo":
        return [1.0 / (num_rows * longest)] * len(masks)
    return [1.0 / (int(count) * num_rows) if count else 0.0 for count in counts]
