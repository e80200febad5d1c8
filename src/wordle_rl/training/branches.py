"""Several continuations of one sequence as one row to train on.

A row may hold, after a sequence, further continuations of its prefixes. Each begins with a copy of the token before it
and sees that prefix and itself alone, so that every token is predicted from what it would be in a row of its own,
while the prefix is computed once:

    tokens     a  b  c  d  e | c  x  y | b  z
    positions  0  1  2  3  4 | 2  3  4 | 1  2      a continuation begins where positions do not rise by one
    y sees     a  b          | c  x  y

The attention of `eager` and `sdpa` takes such masks; for others the continuations are rows of their own.

Source: the mask of tree attention, as in Miao et al. 2024 (SpecInfer), arXiv:2305.09781.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from wordle_rl.data.dataset import Example

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def takes_branches(model: PreTrainedModel) -> bool:
    """True if the model's attention takes a mask of any form in all its layers."""
    config = model.config.get_text_config()
    kinds = {*(getattr(config, "layer_types", None) or ["full_attention"])}
    return config._attn_implementation in {"eager", "sdpa"} and kinds == {"full_attention"}


def branched(
    token_ids: Sequence[int], forks: Sequence[int], continuation: Sequence[int], loss_mask: Sequence[int] = ()
) -> Example:
    """One row that trains the same continuation after several prefixes of a sequence, the longest prefix first.

    In this order no continuation begins at the position after the last one's end, so positions tell them apart.

    Args:
        token_ids: The sequence; what follows its longest prefix and its last token with a loss is left out.
        forks: Lengths of the prefixes, rising, each at least 1.
        continuation: The tokens to train on.
        loss_mask: 1 for each token of the sequence to train on as well; left out: none.

    Examples:
        >>> row = branched([5, 6, 7, 8], [2, 3], [1, 0])
        >>> row.token_ids, row.loss_mask, row.position_ids
        ([5, 6, 7, 1, 0, 6, 1, 0], [0, 0, 0, 1, 1, 0, 1, 1], [0, 1, 2, 3, 4, 1, 2, 3])
    """
    learnt = [1] * len(continuation)
    *earlier, longest = forks
    if any(loss_mask):
        last = len(loss_mask) - [*reversed(loss_mask)].index(1)
        end = max(last, longest)
        ids, mask, earlier = [*token_ids[:end]], [*loss_mask[:end]], [*forks]
    else:
        ids, mask = [*token_ids[:longest], *continuation], [0] * longest + learnt
    positions = list(range(len(ids)))
    for fork in reversed(earlier):
        ids += [token_ids[fork - 1], *continuation]
        mask += [0, *learnt]
        positions += range(fork - 1, fork + len(continuation))
    return Example(ids, mask, positions if earlier else [])


def visible(position_ids: Sequence[int]) -> npt.NDArray[np.bool_]:
    """The tokens that each token of a row sees, shape (T, T): [i, j] is true if token i sees token j."""
    positions = np.asarray(position_ids)
    index = np.arange(len(positions))
    begins = np.concatenate([[0], np.flatnonzero(np.diff(positions) != 1) + 1])
    branch = np.searchsorted(begins, index, side="right") - 1  # (T,): 0 is the sequence itself
    fork = positions[begins][branch]  # (T,): tokens of the sequence before the branch
    own = (branch[:, None] == branch[None, :]) & (index[None, :] <= index[:, None])
    prefix = (branch[None, :] == 0) & (index[None, :] < fork[:, None])
    return np.asarray(own | prefix)


class BranchCollator:
    """Makes batches of rows with branches: padded ids, labels and positions, and an attention mask for each row.

    Args:
        pad_id: Fills up rows; padding sees itself alone.
        attention: `sdpa` takes a mask of booleans, `eager` one that is added to the scores.
    """

    def __init__(self, pad_id: int, attention: str) -> None:
        self._pad_id, self._added = pad_id, attention == "eager"

    def __call__(self, rows: Sequence[Mapping[str, Sequence[int]]]) -> dict[str, torch.Tensor]:
        """Tensors of shape (B, T); `attention_mask` of shape (B, 1, T, T)."""
        width = max(len(row["input_ids"]) for row in rows)
        ids = np.full((len(rows), width), self._pad_id)
        labels = np.full_like(ids, -100)
        positions = np.zeros_like(ids)
        sees = np.broadcast_to(np.eye(width, dtype=np.bool_), (len(rows), width, width)).copy()
        for number, row in enumerate(rows):
            length = len(row["input_ids"])
            own = row.get("position_ids") or range(length)
            ids[number, :length], labels[number, :length] = row["input_ids"], row["labels"]
            positions[number, :length] = own
            sees[number, :length, :length] = visible(own)
        mask = torch.from_numpy(sees)[:, None]  # (B, 1, T, T)
        if self._added:
            mask = torch.zeros(mask.shape).masked_fill_(~mask, torch.finfo(torch.float32).min)
        tensors = {"input_ids": ids, "labels": labels, "position_ids": positions}
        return {name: torch.from_numpy(array) for name, array in tensors.items()} | {"attention_mask": mask}
