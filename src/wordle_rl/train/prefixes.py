"""Prefix trees: lay out rows that begin alike so that each distinct token is computed once.

Games open with the same prompt, and most of them with the same guess. In a causal model the values at a token depend
only on the tokens up to it, so rows share the values of a common prefix. A batch becomes a list of distinct tokens, the
nodes of its prefix tree. Everything but attention works on that list; attention gathers the nodes along each row:

    rows      a b c d      nodes   a b c d e f g        node_of   0 1 2 3
              a b e f              0 1 2 3 4 5 6                  0 1 4 5
              a g                                                 0 6 -

Source: RadixMLP, Feil and Lipp 2026, arXiv:2601.15013, which does this for inference.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


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
