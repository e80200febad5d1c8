"""Rows of a batch that begin alike, laid out so that each of their tokens is computed once.

Games open with the same prompt, and most of them with the same guess. What a causal model computes at a token depends
on the tokens up to it alone, so rows with a common prefix share its values. A batch becomes a list of distinct
tokens, the nodes of its prefix tree; all but attention works on that list. Attention works on rows again, each made
of the nodes along it:

    rows      a b c d      nodes   a b c d e f g        node_of   0 1 2 3
              a b e f              0 1 2 3 4 5 6                  0 1 4 5
              a g                                                 0 6 -

Source: RadixMLP, Feil and Lipp 2026, arXiv:2601.15013, there for inference.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


@dataclass(frozen=True)
class SharedBatch:
    """The distinct tokens of a batch, and where they stand in its rows; the lists of nodes end in fillers.

    Attributes:
        tokens: Token of each node, shape (N,).
        positions: Its position in its rows, shape (N,).
        node_of: Node of each place of the rows, shape (B, T); 0 where no loss looks.
        places: One place of each node that is no filler, an index into the rows laid end to end, shape (<= N,).
        asked: The nodes whose prediction is trained, shape (M,), fillers included.
        num_asked: How many of them are no fillers.
        predicted_by: For each trained token, row by row, the index into `asked` of the node that predicts it, (L,).
    """

    tokens: Tensor
    positions: Tensor
    node_of: Tensor
    places: Tensor
    asked: Tensor
    num_asked: int
    predicted_by: Tensor


def share_prefixes(input_ids: Tensor, trained: Tensor, multiple: int) -> SharedBatch:
    """Lay out a batch of padded rows, without the tokens behind the last of a row that predicts a trained one.

    Args:
        input_ids: Shape (B, T).
        trained: Which tokens after the first of their row are trained, at least one; shape (B, T - 1).
        multiple: Lists of nodes are filled up to a multiple of this: oneDNN compiles a kernel for every new length.
    """
    device = input_ids.device
    ids, wanted = input_ids.cpu().numpy()[:, :-1], trained.cpu().numpy()  # (B, T - 1): token, is the next one trained
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
    """The places at which a node stands first, and the node of every place, both of shape (B, T).

    In lexical order, a row shares with those before it what it shares with the last of them.
    """
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
