"""Divergences of the policy in training: from the sampler that played, and from the weights it started with.

Both are metrics alone; neither changes the loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LARGEST_RATIO = "importance_ratio/max"
_MOST_WEIGHTS = 100_000_000
"""Most trained weights of which a copy is kept."""


def kl_estimate(log_ratio: Tensor) -> Tensor:
    """Estimates of KL(q || p) at tokens drawn from q, given log p - log q; never negative, same shape.

    Source: k3 of Schulman, "Approximating KL divergence", 2020.

    Examples:
        >>> kl_estimate(torch.tensor([0.0]))
        tensor([0.])
    """
    return log_ratio.exp() - 1 - log_ratio


class StartPolicy:
    """The policy with the weights that a training starts from, called as a model is.

    Args:
        model: The policy before its first step. What training changes in it is copied.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        self._weights = {
            name: weight.detach().clone() for name, weight in model.named_parameters() if weight.requires_grad
        }

    @classmethod
    def of(cls, model: PreTrainedModel) -> StartPolicy | None:
        """The start of a policy before its first step; None where the copy would take too much memory."""
        trained = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
        return cls(model) if trained <= _MOST_WEIGHTS else None

    @torch.no_grad()
    def __call__(self, **inputs: Any) -> Any:
        """The output of the model with these weights."""
        return torch.func.functional_call(self._model, self._weights, kwargs=inputs)


def mismatch_sums(policy_logprobs: Tensor, sampler_logprobs: Tensor) -> Tensor:
    """Summands of `mismatch` over tokens that the sampler drew.

    A ratio is a token's probability in training over that in sampling.

    Args:
        policy_logprobs: Shape (tokens,).
        sampler_logprobs: Shape (tokens,).

    Returns:
        Shape (4,): number of tokens, sum of ratios, sum of KL estimates, largest ratio.
    """
    log_ratio = (policy_logprobs - sampler_logprobs).float()
    ratio = log_ratio.exp()
    largest = ratio.max() if len(ratio) else ratio.new_zeros(())
    return torch.stack([ratio.new_tensor(len(ratio)), ratio.sum(), kl_estimate(log_ratio).sum(), largest])


def mismatch(sums: Tensor) -> dict[str, float]:
    """Differences between the policy in training and the sampler.

    Both compute with the same weights before an update, so only rounding, other kernels or a wrong sampler make them
    differ.

    Args:
        sums: `mismatch_sums` of each process, shape (processes, 4).

    Returns:
        `importance_ratio/mean` and `/max`, and `sampler_kl`, the KL divergence of the sampler from the policy in nats
        per token. Without tokens 1, 1 and 0.

    Examples:
        >>> same = torch.tensor([-1.0, -2.0])
        >>> mismatch(mismatch_sums(same, same)[None])
        {'importance_ratio/mean': 1.0, 'sampler_kl': 0.0, 'importance_ratio/max': 1.0}
    """
    count, ratios, divergences, _ = sums.sum(0).tolist()
    if not count:
        return {"importance_ratio/mean": 1.0, "sampler_kl": 0.0, LARGEST_RATIO: 1.0}
    largest = float(sums[:, 3].max())
    return {"importance_ratio/mean": ratios / count, "sampler_kl": divergences / count, LARGEST_RATIO: largest}
