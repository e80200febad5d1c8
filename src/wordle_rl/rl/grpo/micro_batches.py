"""Micro-batches of games of similar length, so that little of what is computed is padding.

TRL pads all games of a step to the longest and assigns them to micro-batches at random. The loss of a step is a sum
over its games, so it does not matter which of them are computed together; how much padding they carry does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from trl.trainer.utils import split_tensor_dict

_PROMPT = ("prompt_ids", "prompt_mask")


def by_length(batches: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of all micro-batches of a step, regrouped by length, longest first; each batch is as wide as needed.

    The longest come first, so that a lack of memory shows at once.

    Args:
        batches: TRL's micro-batches, equal in size: tensors with a row per game, among them `prompt_ids` padded on the
            left and `completion_ids` on the right with their masks, numbers and None.
    """
    whole = {name: _together([batch[name] for batch in batches]) for name in batches[0]}
    lengths = whole["prompt_mask"].sum(dim=1) + whole["completion_mask"].sum(dim=1)
    order = lengths.argsort(descending=True, stable=True)
    rows = {name: value[order] if _has_rows(value) else value for name, value in whole.items()}
    return [trimmed(batch) for batch in split_tensor_dict(rows, len(batches))]


def trimmed(batch: Mapping[str, Any]) -> dict[str, Any]:
    """A micro-batch without the columns that are padding in each of its rows.

    Args:
        batch: As for `by_length`; a tensor of shape (rows, width of the completions) has a column per token.
    """
    width = batch["completion_ids"].shape[1]
    longest_prompt = int(batch["prompt_mask"].sum(dim=1).max())
    longest = int(batch["completion_mask"].sum(dim=1).max())
    cut: dict[str, Any] = {}
    for name, value in batch.items():
        if name in _PROMPT:
            cut[name] = value[:, value.shape[1] - longest_prompt :]
        elif _has_rows(value) and value.shape[1:] == (width,):
            cut[name] = value[:, :longest]
        else:
            cut[name] = value
    return cut


def _together(values: Sequence[Any]) -> Any:
    """The rows of every batch below each other; what has no rows is the same in all."""
    return torch.cat(list(values)) if _has_rows(values[0]) else values[0]


def _has_rows(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dim() > 0
