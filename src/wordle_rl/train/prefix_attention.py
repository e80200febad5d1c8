"""Any causal model over the distinct tokens of a batch: a prefix that several rows share is computed once.

`prefixes.share_prefixes` lays a batch out as nodes of its prefix tree. The model reads the nodes as one long sequence,
each at its position in its rows; only attention must know that they are a tree. transformers lets anyone register an
attention function, so no model is rewritten: this one copies keys and values to the rows, where attention is plainly
causal, and takes each node's result from one of its rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface

from wordle_rl.train.prefixes import SharedBatch

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NAME = "wordle_rl_prefix_tree"
_TREE: ContextVar[SharedBatch] = ContextVar("prefix_tree")
"""Layout of the nodes that the model reads now; not every model passes on arguments to its attention."""


def tree_attention(
    _module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    _attention_mask: None,
    *,
    scaling: float | None = None,
    **_options: Any,
) -> tuple[Tensor, None]:
    """Causal attention of every node along the rows it stands in, in the form transformers asks for.

    Args:
        query: Shape (1, heads, N, head_dim).
        key: Shape (1, kv_heads, N, head_dim); `heads` is a multiple of `kv_heads`.
        value: Like `key`; its head_dim may be another (multi-head latent attention).
        scaling: Factor of the scores; None: 1 / sqrt(head_dim).

    Returns:
        Shape (1, N, heads, head_dim of values), of fillers zeros; and None for the weights, which are not returned.
    """
    prefix_tree = _TREE.get()
    (num_rows, width), places = prefix_tree.node_of.shape, prefix_tree.places
    heads, kv_heads, d = query.shape[1], key.shape[1], query.shape[3]
    scaling = d**-0.5 if scaling is None else scaling
    # Each node asks at one of its places (B * T), the other places ask with zeros and nobody reads the answer.
    nodes = query[0].transpose(0, 1).flatten(1)[: len(places)]  # (n, heads * d)
    asked = nodes.new_zeros(num_rows * width, heads * d).index_copy(0, places, nodes)
    q = asked.view(num_rows, width, heads, d).transpose(1, 2)  # (B, heads, T, d)
    keys, values = (
        each[0].transpose(0, 1).flatten(1)[prefix_tree.node_of.flatten()].view(num_rows, width, kv_heads, -1)
        for each in (key, value)
    )
    k, v = keys.transpose(1, 2), values.transpose(1, 2)  # (B, kv_heads, T, d)
    if q.device.type == "cpu" and width <= _SHORT:
        seen = _short_attention(q, k, v, scaling)
    else:
        seen = scaled_dot_product_attention(q, k, v, is_causal=True, scale=scaling, enable_gqa=heads != kv_heads)
    at_places = seen.transpose(1, 2).reshape(num_rows * width, -1)[places]  # (n, heads * d)
    out = torch.nn.functional.pad(at_places, (0, 0, 0, query.shape[2] - len(places)))
    return out.view(1, query.shape[2], heads, -1), None


def _short_attention(q: Tensor, k: Tensor, v: Tensor, scaling: float) -> Tensor:
    """The plain formula: for games of some 100 tokens on a processor twice as fast as torch's fused kernel.

    Query heads that share keys are rows of one matrix product.
    """
    (num_rows, heads, width, d), kv_heads = q.shape, k.shape[1]
    groups = heads // kv_heads
    folded = q.reshape(num_rows * kv_heads, groups * width, d)
    hidden = torch.full((width, width), -torch.inf, dtype=q.dtype).triu_(1).repeat(groups, 1)  # (G * T, T)
    scores = torch.baddbmm(hidden, folded, k.reshape(-1, width, d).transpose(1, 2), alpha=scaling)
    return torch.bmm(scores.softmax(-1), v.reshape(-1, width, v.shape[3])).view(num_rows, heads, width, -1)


def _no_mask(*_args: Any, **_options: Any) -> None:
    """No mask: the layout of the nodes says who sees whom."""


_SHORT = 256
"""Up to this many tokens a row has a table of scores in memory."""

AttentionInterface.register(NAME, tree_attention)
AttentionMaskInterface.register(NAME, _no_mask)


@contextmanager
def attending_to_tree(model: PreTrainedModel, tree: SharedBatch) -> Iterator[None]:
    """Let the model use `tree_attention` over these nodes for a while."""
    before = model.config.get_text_config()._attn_implementation
    model.set_attn_implementation(NAME)
    token = _TREE.set(tree)
    try:
        yield
    finally:
        _TREE.reset(token)
        model.set_attn_implementation(before)


def takes_prefix_tree(model: PreTrainedModel) -> bool:
    """True if all layers attend to the whole past by the plain formula, and leave attention to the library."""
    config = model.config.get_text_config()
    kinds = {*(getattr(config, "layer_types", None) or ["full_attention"])}
    return (
        config._attn_implementation in {"eager", "sdpa"}
        and kinds == {"full_attention"}
        and bool(getattr(model, "_supports_attention_backend", False))
        and getattr(config, "attn_logit_softcapping", None) is None
        and not getattr(config, "attention_dropout", 0)
        and not any(name.endswith("sinks") for name, _ in model.named_parameters())
    )
