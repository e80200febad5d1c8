"""Grouped-query attention for sampling, without copies of the cache.

For every new token, transformers' attention copies all cached keys and values once per query head of a group. Here the
heads of a group are rows of one matrix product: the same formula, no copies.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NAME = "wordle_rl_grouped"


def grouped_attention(
    _module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    **_options: Any,
) -> tuple[Tensor, None]:
    """Softmax attention without dropout, with the signature that transformers asks for.

    Args:
        query: Shape (rows, heads, new, head_dim).
        key: Shape (rows, kv_heads, all, head_dim); `heads` is a multiple of `kv_heads`.
        value: Like `key`.
        attention_mask: Added to the scores, shape (rows, 1, new, all), or None.
        scaling: Factor of the scores.

    Returns:
        Output of shape (rows, new, heads, head_dim), and None in place of the weights.
    """
    rows, heads, new, head_dim = query.shape
    folded = query.reshape(rows, key.shape[1], -1, head_dim)  # (rows, kv_heads, group x new, head_dim)
    scores = torch.matmul(folded, key.transpose(2, 3)).mul_(scaling).view(rows, heads, new, -1)
    if attention_mask is not None:
        # Not in place. Under bfloat16 autocast the float32 minimum in the mask would become -inf, and the softmax of an
        # all-padding row NaN.
        scores = scores + attention_mask
    weights = scores.softmax(dim=-1, dtype=torch.float32).to(query.dtype).view(*folded.shape[:3], -1)
    mixed = torch.matmul(weights, value).view(rows, heads, new, -1)
    return mixed.transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, grouped_attention)
AttentionMaskInterface.register(NAME, eager_mask)


@contextmanager
def grouped(model: PreTrainedModel) -> Iterator[None]:
    """Let a model with plain attention use `grouped_attention` within this context."""
    if not _fits(model):
        yield
        return
    before = model.config.get_text_config()._attn_implementation
    model.set_attn_implementation(NAME)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def _fits(model: PreTrainedModel) -> bool:
    # The model must accept any attention function and add nothing to the formula. On a GPU, torch's fused kernel (sdpa)
    # is faster and stays.
    config = model.config.get_text_config()
    return (
        config._attn_implementation in ({"eager", "sdpa"} if model.device.type == "cpu" else {"eager"})
        and bool(getattr(model, "_supports_attention_backend", False))
        and getattr(config, "attn_logit_softcapping", None) is None
        and not any(name.endswith("sinks") for name, _ in model.named_parameters())
    )
