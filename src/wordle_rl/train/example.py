"""`Example`: what every algorithm trains on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Example:
    """One sequence to train on, for every algorithm. All fields have one entry per token, except `soft_targets`.

    Attributes:
        loss_mask: 1 on the tokens to train on, else 0.
        advantages: Per token; empty outside of policy gradients.
        sampler_logprobs: Log-probability with which each token was sampled; empty outside of policy gradients.
        soft_targets: For distillation: per token in the loss, except the sequence's first token, the target
            distribution as (token, probability) pairs. Empty: the tokens themselves are the targets.
    """

    token_ids: Sequence[int]
    loss_mask: Sequence[int]
    advantages: Sequence[float] = ()
    sampler_logprobs: Sequence[float] = ()
    soft_targets: Sequence[Sequence[tuple[int, float]]] = ()
