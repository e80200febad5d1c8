"""Prefix sharing: rows that begin alike are laid out as a prefix tree, and each distinct token is computed once.

Games open with the same prompt, and most of them with the same guess. In a causal model the values at a token depend
only on the tokens up to it, so rows share the values of a common prefix. A batch becomes a list of distinct tokens, the
nodes of its prefix tree. Everything but attention works on that list; attention gathers the nodes along each row:

    rows      a b c d      nodes   a b c d e f g        node_of   0 1 2 3
              a b e f              0 1 2 3 4 5 6                  0 1 4 5
              a g                                                 0 6 -

The model reads the nodes as one long sequence, each with its position in its rows. Only attention must know about the
tree, and transformers lets you register an attention function, so no model is rewritten.

Source: RadixMLP, Feil and Lipp 2026, arXiv:2601.15013, which does this for inference.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface

from wordle_rl.policy.sizes import has_keys_and_values

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class SharedBatch:
    """The distinct tokens of a batch and their places in its rows. Lists of nodes end in padding.

    Attributes:
        tokens: Token id of each node, shape (N,).
        positions: Position of each node in its rows, shape (N,).
        node_of: Node at each place of the rows, shape (B, T); 0 at places that no loss depends on.
        places: For each node without padding one of its places, as an index into the flattened rows, shape (<= N,).
        asked: Nodes whose prediction is trained, shape (M,), with padding.
        num_asked: Number of such nodes without padding.
        predicted_by: For each trained token, row by row, the index into `asked` of its predicting node, shape (L,).
    """

    tokens: Tensor
    positions: Tensor
    node_of: Tensor
    places: Tensor
    asked: Tensor
    num_asked: int
    predicted_by: Tensor


def share_prefixes(input_ids: Tensor, trained: Tensor, multiple: int) -> SharedBatch:
    """Lay out a batch of padded rows as a prefix tree.

    Args:
        input_ids: Shape (B, T).
        trained: Mask of trained tokens, at least one, shape (B, T - 1); column t is about token t + 1.
        multiple: Pad lists of nodes to a multiple of this, since oneDNN compiles a kernel for every new length.
    """
    device = input_ids.device
    ids, wanted = input_ids.cpu().numpy()[:, :-1], trained.cpu().numpy()  # (B, T - 1): token; is the next one trained?
    # In each row, drop all tokens after the last one that predicts a trained token: no loss depends on them.
    needed = np.logical_or.accumulate(wanted[:, ::-1], axis=1)[:, ::-1]
    new, node_of = _prefix_tree(np.where(needed, ids, -1), needed)
    places = np.flatnonzero(new)
    rows, columns = np.nonzero(wanted)
    asked, predicted_by = np.unique(node_of[rows, columns], return_inverse=True)
    return SharedBatch(
        tokens=torch.from_numpy(_filled(ids.ravel()[places], multiple)).to(device),
        positions=torch.from_numpy(_filled(places % ids.shape[1], multiple)).to(device),
        node_of=torch.from_numpy(node_of).to(device),
        places=torch.from_numpy(places).to(device),
        asked=torch.from_numpy(_filled(asked, multiple)).to(device),
        num_asked=len(asked),
        predicted_by=torch.from_numpy(predicted_by).to(device),
    )


def _prefix_tree(
    ids: npt.NDArray[np.int64], needed: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    # Returns, both of shape (B, T): where a node occurs for the first time, and the node at every place.
    # In lexical order, the longest prefix that a row shares with any row above it is the one it shares with the row
    # directly above. So comparing neighbours finds the whole tree.
    order = np.lexsort(ids.T[::-1])
    in_order, index = ids[order], np.arange(ids.shape[0])[:, None]
    first = needed[order]
    first[1:] &= ~np.logical_and.accumulate(in_order[1:] == in_order[:-1], axis=1)
    owner = order[np.maximum.accumulate(np.where(first, index, 0), axis=0)]  # (B, T): the row with the node's place
    new, owner_of = np.zeros_like(needed), np.empty_like(owner)
    new[order], owner_of[order] = first, owner
    number = np.cumsum(new).reshape(new.shape) - 1
    return new, np.where(needed, np.take_along_axis(number, owner_of, axis=0), 0)


def _filled(nodes: npt.NDArray[np.int64], multiple: int) -> npt.NDArray[np.int64]:
    return np.concatenate([nodes, np.zeros(-len(nodes) % multiple, dtype=nodes.dtype)])


NAME = "wordle_rl_prefix_tree"
_TREE: ContextVar[SharedBatch] = ContextVar("prefix_tree")
"""Layout of the current nodes. A context variable, because not every model passes arguments on to its attention."""


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
    """Causal attention of every node along its rows, with the signature that transformers asks for.

    Shapes are (1, heads, N, head_dim) for `query` and (1, kv_heads, N, head_dim) for `key` and `value`, whose head_dim
    can differ (multi-head latent attention). The output has shape (1, N, heads, head_dim of values), zeros for padding
    nodes; None stands in place of the weights.
    """
    prefix_tree = _TREE.get()
    (num_rows, width), places = prefix_tree.node_of.shape, prefix_tree.places
    heads, kv_heads, d = query.shape[1], key.shape[1], query.shape[3]
    scaling = d**-0.5 if scaling is None else scaling
    # Each node has its query at one place of the (B, T) grid. All other places get zeros, and their output is dropped.
    nodes = query[0].transpose(0, 1).flatten(1)[: len(places)]  # (n, heads * d)
    asked = nodes.new_zeros(num_rows * width, heads * d).index_copy(0, places, nodes)
    q = asked.view(num_rows, width, heads, d).transpose(1, 2)  # (B, heads, T, d)
    keys, values = (
        each[0].transpose(0, 1).flatten(1)[prefix_tree.node_of.flatten()].view(num_rows, width, kv_heads, -1)
        for each in (key, value)
    )
    k, v = keys.transpose(1, 2), values.transpose(1, 2)  # (B, kv_heads, T, d)
    if q.device.type == "cpu" and width <= _SHORT:
        seen = short_attention(q, k, v, scaling)
    else:
        seen = scaled_dot_product_attention(q, k, v, is_causal=True, scale=scaling, enable_gqa=heads != kv_heads)
    at_places = seen.transpose(1, 2).reshape(num_rows * width, -1)[places]  # (n, heads * d)
    out = torch.nn.functional.pad(at_places, (0, 0, 0, query.shape[2] - len(places)))
    return out.view(1, query.shape[2], heads, -1), None


def short_attention(q: Tensor, k: Tensor, v: Tensor, scaling: float) -> Tensor:
    """Causal attention by the plain formula: for about 100 tokens on a CPU, twice as fast as torch's fused kernel.

    Shapes are (B, heads, T, d) for `q` and the result, (B, kv_heads, T, d) for `k` and `v`.
    """
    # Query heads that share keys become rows of one matrix product (grouped-query attention).
    (num_rows, heads, width, d), kv_heads = q.shape, k.shape[1]
    groups = heads // kv_heads
    folded = q.reshape(num_rows * kv_heads, groups * width, d)
    hidden = q.new_full((width, width), -torch.inf).triu_(1).repeat(groups, 1)  # (G * T, T)
    scores = torch.baddbmm(hidden, folded, k.reshape(-1, width, d).transpose(1, 2), alpha=scaling)
    return torch.bmm(scores.softmax(-1), v.reshape(-1, width, v.shape[3])).view(num_rows, heads, width, -1)


_SHORT = 256
"""Longest row, in tokens, for `short_attention`: it holds the (T, T) table of scores in memory."""

AttentionInterface.register(NAME, tree_attention)
AttentionMaskInterface.register(NAME, lambda *_args, **_options: None)  # the tree says which node sees which


@contextmanager
def attending_to_tree(model: PreTrainedModel, tree: SharedBatch) -> Iterator[None]:
    """Let the model attend over the nodes of a tree within this context."""
    before = model.config.get_text_config()._attn_implementation
    model.set_attn_implementation(NAME)
    token = _TREE.set(tree)
    try:
        yield
    finally:
        _TREE.reset(token)
        model.set_attn_implementation(before)


def takes_prefix_tree(model: PreTrainedModel) -> bool:
    """True if every layer attends by the plain formula, through transformers' attention interface.

    A tree has no windows: in layers that have, only rows that fit into one can share prefixes.
    """
    config = model.config.get_text_config()
    return (
        config._attn_implementation in {"eager", "sdpa"}
        and has_keys_and_values(config)
        and bool(getattr(model, "_supports_attention_backend", False))
        and getattr(config, "attn_logit_softcapping", None) is None
        and not getattr(config, "attention_dropout", 0)
        and not any(name.endswith("sinks") for name, _ in model.named_parameters())
    )
