"""The losses, as functions of the log-probabilities of tokens in games.

    algorithm            rows come from            loss of a token
    SFT                  teacher's games           -log p
    expert iteration     own games, filtered       -log p
    hindsight labels     own boards                -log p of the label
    distillation         own boards                -sum_v teacher(v) log p(v)
    GRPO                 own games                 -min(ratio A, clip(ratio) A) + beta KL
    DPO                  own pairs                 logistic of the difference of two replies

The trained tokens of a micro-batch are concatenated, and N is their number; `rows`, shape (N,), gives the row of each.

A step is split into micro-batches and over processes. The weight of each token in the loss of the step is therefore
computed beforehand (`token_weights`), and the loss of the step is the plain sum over all parts.

A loss is a value (`CrossEntropy`, `PolicyLoss`, `PreferenceLoss`) that every `Learner` takes. Calling it computes in
torch; the MLX learner reads the same fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

if TYPE_CHECKING:
    from wordle_rl.train.logprobs import Scores
    from wordle_rl.train.micro_batches import Batch

Aggregation = Literal["dapo", "grpo", "dr_grpo"]
Figures = dict[str, Tensor]
"""Sums over the tokens of a micro-batch by name; names that end in `/max` are maxima."""


# --- functions of log-probabilities ---


def cross_entropy(logprobs: Tensor, weights: Tensor) -> Tensor:
    """Weighted negative log-likelihood of targets, or of distributions: then `logprobs` are sum_v target(v) log p(v).

    Both have shape (N,).
    """
    return -(weights * logprobs).sum()


def policy_loss(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    weights: Tensor,
    *,
    epsilon: float = 0.2,
    epsilon_high: float = 0.28,
    reference_logprobs: Tensor | None = None,
    beta: float = 0.0,
) -> tuple[Tensor, Figures]:
    """Clipped policy-gradient loss with a KL penalty, and sums for logging. All tensors have shape (N,).

    Args:
        old_logprobs: Under the weights in the denominator of the ratio. For games that are trained on once and right
            away, pass `logprobs.detach()`: the ratio is 1 and its gradient is that of the log-probability.
        epsilon_high: Upper clip range; larger than the lower one, so that rare tokens can gain (DAPO).

    Source: PPO's clip, arXiv:1707.06347; GRPO, arXiv:2402.03300; DAPO, arXiv:2503.14476.
    """
    ratio = (logprobs - old_logprobs).exp()  # (N,)
    clipped = ratio.clamp(1 - epsilon, 1 + epsilon_high)
    # The minimum is pessimistic: clipping removes further gain, but never hides a loss.
    losses = -torch.minimum(ratio * advantages, clipped * advantages)
    constant = ratio.detach()
    # Clipping acts only where the advantage pushes the ratio further out.
    figures = {
        "clip_ratio/low_mean": ((constant < 1 - epsilon) & (advantages < 0)).sum(),
        "clip_ratio/high_mean": ((constant > 1 + epsilon_high) & (advantages > 0)).sum(),
    }
    if beta and reference_logprobs is not None:
        divergence = kl_estimate(reference_logprobs - logprobs)
        # The tokens were drawn by the old weights. With the factor `ratio` the gradient is that of
        # KL(policy || reference). Without it, k3's gradient only has the right sign.
        losses = losses + beta * ratio * divergence
        figures["kl"] = divergence.detach().sum()
    return (weights * losses).sum(), figures


def kl_estimate(log_ratio: Tensor) -> Tensor:
    """Estimate KL(q || p) at each token drawn from q, given log p - log q. Same shape, never negative.

    Source: k3 of Schulman, "Approximating KL divergence", 2020.
    """
    # E_q[p / q - 1] = 0, so adding it to -log(p / q) keeps the mean. Both terms move together, so the variance falls.
    return log_ratio.exp() - 1 - log_ratio


def truncated_importance(policy_logprobs: Tensor, sampler_logprobs: Tensor, cap: float) -> Tensor:
    """Importance ratios p_policy / p_sampler, capped, without gradient. Same shape; multiply advantages by them.

    A sampler with other kernels or another precision draws from a slightly different policy.

    Source: truncated importance sampling, Yao et al. 2025, "Your efficient RL framework secretly brings you off-policy
    RL training".
    """
    return (policy_logprobs - sampler_logprobs).detach().exp().clamp(max=cap)


def preference_loss(log_ratios: Tensor, *, beta: float) -> Tensor:
    """Loss of each pair of replies to the same prompt, shape (pairs,).

    Args:
        log_ratios: log p(reply) - log reference(reply) of the chosen and the rejected reply, shape (pairs, 2).
        beta: Strength of the implicit KL constraint.

    Source: DPO, arXiv:2305.18290.
    """
    return -logsigmoid(beta * (log_ratios[:, 0] - log_ratios[:, 1]))


# --- losses as values, which learners take ---


@dataclass(frozen=True, slots=True)
class Totals:
    """Trained tokens and rows of a step, over all micro-batches and processes."""

    num_tokens: int
    num_rows: int


class Loss(Protocol):
    """A loss of a step."""

    @property
    def needs_reference(self) -> bool:
        """True if it needs log-probabilities under the initial weights."""

    @property
    def needs_entropy(self) -> bool:
        """True if it reports the policy's entropy."""

    @property
    def dropout(self) -> bool:
        """True to train with dropout; False to score tokens exactly as they were sampled."""

    def count(self, totals: Totals) -> int:
        """Return the number that sums for logging are divided by."""

    def token_weights(self, row_tokens: Sequence[int], totals: Totals) -> list[float]:
        """Return the weight of a trained token in each row, given the number of trained tokens per row."""

    def __call__(self, scores: Scores, batch: Batch) -> tuple[Tensor, Figures]:
        """Return the summand of a micro-batch, and sums for logging."""


@dataclass(frozen=True, slots=True)
class CrossEntropy:
    """Mean over the tokens of the step: SFT, expert iteration, hindsight labels, distillation."""

    needs_reference = False
    needs_entropy = False
    dropout = True

    def count(self, totals: Totals) -> int:
        """Tokens of the step."""
        return totals.num_tokens

    def token_weights(self, row_tokens: Sequence[int], totals: Totals) -> list[float]:
        """1 / tokens of the step."""
        return [1 / max(1, totals.num_tokens)] * len(row_tokens)

    def __call__(self, scores: Scores, batch: Batch) -> tuple[Tensor, Figures]:
        """See `Loss`."""
        return cross_entropy(scores.logprobs, batch.weights), {"mean_token_accuracy": scores.right.sum()}


@dataclass(frozen=True, slots=True)
class PolicyLoss:
    """GRPO's loss.

    Attributes:
        longest: Most trained tokens a row can have; the divisor of `dr_grpo`.
        beta: Weight of the KL penalty to the initial weights.
        importance_cap: Cap of the truncated importance ratio to the sampler; 0: no correction.
        off_policy: Games come from older weights, or are trained on several times: take ratios to the sampler's
            log-probabilities.
    """

    aggregation: Aggregation = "dapo"
    longest: int = 1
    epsilon: float = 0.2
    epsilon_high: float = 0.28
    beta: float = 0.0
    importance_cap: float = 0.0
    off_policy: bool = False

    needs_entropy = True
    dropout = False

    @property
    def needs_reference(self) -> bool:
        """See `Loss`."""
        return self.beta > 0

    def count(self, totals: Totals) -> int:
        """Tokens of the step."""
        return totals.num_tokens

    def token_weights(self, row_tokens: Sequence[int], totals: Totals) -> list[float]:
        """Return the weight of a token in each row.

            dapo     1 / tokens of the step              every token counts the same
            grpo     1 / (tokens of its row x rows)      every row counts the same, so tokens of long rows count less
            dr_grpo  1 / (rows x longest)                a constant, so the loss of a game does not shrink with length

        Source: DAPO, arXiv:2503.14476; GRPO, arXiv:2402.03300; Dr. GRPO, arXiv:2503.20783.

        Examples:
            >>> [round(weight, 3) for weight in PolicyLoss("grpo").token_weights([2, 1], Totals(3, 2))]
            [0.25, 0.5]
        """
        if self.aggregation == "dapo":
            return [1 / max(1, totals.num_tokens)] * len(row_tokens)
        if self.aggregation == "dr_grpo":
            return [1 / (totals.num_rows * self.longest)] * len(row_tokens)
        return [1 / (count * totals.num_rows) if count else 0.0 for count in row_tokens]

    def __call__(self, scores: Scores, batch: Batch) -> tuple[Tensor, Figures]:
        """See `Loss`."""
        policy = scores.logprobs.detach()
        advantages = batch.advantages
        assert advantages is not None
        assert batch.sampler_logprobs is not None
        # On policy, the ratio is taken to the policy itself and is 1. The rounding of an engine with other kernels is
        # corrected on the advantage instead, where clipping cannot act on it.
        if self.importance_cap and not self.off_policy:
            advantages = advantages * truncated_importance(policy, batch.sampler_logprobs, self.importance_cap)
        loss, figures = policy_loss(
            scores.logprobs,
            batch.sampler_logprobs if self.off_policy else policy,
            advantages,
            batch.weights,
            epsilon=self.epsilon,
            epsilon_high=self.epsilon_high,
            reference_logprobs=batch.reference_logprobs,
            beta=self.beta,
        )
        # How far the sampler is from the policy: with the same weights, by rounding, other kernels or a bug alone.
        log_ratio = (policy - batch.sampler_logprobs).float()
        ratio = log_ratio.exp()
        return loss, {
            **figures,
            "importance_ratio/mean": ratio.sum(),
            "importance_ratio/max": ratio.max() if len(ratio) else ratio.new_zeros(()),
            "sampler_kl": kl_estimate(log_ratio).sum(),  # of the sampler from the policy, in nats
            "entropy": scores.entropies.sum(),
        }


@dataclass(frozen=True, slots=True)
class PreferenceLoss:
    """DPO's loss; rows 2i and 2i + 1 of a micro-batch are the chosen and the rejected reply of pair i."""

    beta: float

    needs_reference = True
    needs_entropy = False
    dropout = True

    def count(self, totals: Totals) -> int:
        """Pairs of the step."""
        return totals.num_rows // 2

    def token_weights(self, row_tokens: Sequence[int], totals: Totals) -> list[float]:
        """1 / pairs of the step, for every token of a pair."""
        return [2 / totals.num_rows] * len(row_tokens)

    def __call__(self, scores: Scores, batch: Batch) -> tuple[Tensor, Figures]:
        """See `Loss`."""
        assert batch.reference_logprobs is not None
        of_tokens = scores.logprobs - batch.reference_logprobs  # (N,)
        log_ratios = of_tokens.new_zeros(batch.num_rows).index_add(0, batch.rows, of_tokens).view(-1, 2)  # (pairs, 2)
        weight = batch.weights[0] if len(batch.weights) else 0.0  # the same for all tokens; none in a filler batch
        margins = self.beta * (log_ratios[:, 0] - log_ratios[:, 1]).detach()
        figures = {"rewards/margins": margins.sum(), "rewards/accuracies": (margins > 0).float().sum()}
        return weight * preference_loss(log_ratios, beta=self.beta).sum(), figures
