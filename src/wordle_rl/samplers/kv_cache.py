"""A key/value cache that lives as long as a game: rows leave with their games, holes are squeezed out."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer


class GrowingLayer(DynamicLayer):
    """One layer's keys and values in buffers with room to spare, so that a new token copies nothing old."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # transformers leaves it untyped
        self._key_buffer: Tensor | None = None
        self._value_buffer: Tensor | None = None
        self.length = 0

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Append the states of new tokens, shape (rows, heads, new, head_dim), and return all of them."""
        self.is_initialized = True
        self.dtype, self.device = key_states.dtype, key_states.device
        end = self.length + key_states.shape[2]
        self._key_buffer = self._with_room(self._key_buffer, key_states, end)
        self._value_buffer = self._with_room(self._value_buffer, value_states, end)
        self._key_buffer[:, :, self.length : end] = key_states
        self._value_buffer[:, :, self.length : end] = value_states
        self.length = end
        self.keys = self._key_buffer[:, :, :end]
        self.values = self._value_buffer[:, :, :end]
        return self.keys, self.values

    def _with_room(self, buffer: Tensor | None, states: Tensor, needed: int) -> Tensor:
        if buffer is not None and buffer.shape[2] >= needed:
            return buffer
        rows, heads, _, head_dim = states.shape
        grown = states.new_empty(rows, heads, needed + max(32, needed // 2), head_dim)
        if buffer is not None:
            grown[:, :, : self.length] = buffer[:, :, : self.length]
        return grown

    def keep(self, rows: Tensor, columns: Tensor | None) -> None:
        """Keep these rows, and of each row these columns (shape (kept rows, kept columns)) if given."""
        if self.keys is None or self.values is None:
            return
        keys, values = self.keys[rows], self.values[rows]
        if columns is not None:
            index = columns[:, None, :, None].expand(-1, keys.shape[1], -1, keys.shape[3])
            keys, values = keys.gather(2, index), values.gather(2, index)
        self.length = keys.shape[2]
        self._key_buffer, self._value_buffer = keys, values
        self.keys, self.values = keys, values


class GameCache:
    """The cache of a batch of games.

    `mask` has shape (rows, cached tokens): 1 for a token of the game, 0 for a hole that attention must skip.
    """

    def __init__(self, num_layers: int, rows: int, device: torch.device) -> None:
        self._layers = [GrowingLayer() for _ in range(num_layers)]
        self.cache = Cache(layers=list(self._layers))
        self.mask = torch.zeros(rows, 0, dtype=torch.long, device=device)

    def append_mask(self, new: Tensor) -> tuple[Tensor, Tensor]:
        """Announce new tokens, shape (rows, new), 0 for padding.

        Returns:
            The whole mask, shape (rows, all tokens), and the positions of the new tokens, shape (rows, new).
        """
        self.mask = torch.cat([self.mask, new], dim=1)
        positions = (self.mask.cumsum(dim=1) - 1).clamp(min=0)
        return self.mask, positions[:, -new.shape[1] :]

    def keep(self, rows: Tensor) -> None:
        """Keep these rows, in this order, and squeeze out holes by moving every row's tokens to the right."""
        mask = self.mask[rows]
        width = int(mask.sum(dim=1).max()) if len(rows) else 0
        columns = None
        if width < mask.shape[1]:
            columns = mask.argsort(dim=1, stable=True)[:, mask.shape[1] - width :]
            mask = mask.gather(1, columns)
        for layer in self._layers:
            layer.keep(rows, columns)
        self.mask = mask
