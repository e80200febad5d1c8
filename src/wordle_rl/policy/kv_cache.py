"""A key/value cache that lives as long as a game, and attention that reads it in place.

Rows of finished games are dropped and holes are removed. For every new token, transformers' attention copies all cached
keys and values once per query head of a group. Here the heads of a group are rows of one matrix product: the same
formula, no copies.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.cache_utils import Cache, DynamicLayer
from transformers.masking_utils import eager_mask

from wordle_rl.policy.sizes import attention_sizes, num_shared_layers
from wordle_rl.policy.uncached import RereadCache, needs_generate

GROUPED = "wordle_rl_grouped"
"""Name of `grouped_attention` in transformers."""


class GrowingLayer(DynamicLayer):
    """Keys and values of one layer, in buffers with spare room, so that adding a token or a row copies nothing else.

    transformers' own layer copies all keys and values for every token.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # transformers leaves it untyped
        self._buffers: list[Tensor] = []  # of keys and of values, shape (rows, heads, tokens, head_dim)
        self._rows = self._length = 0  # the used part of both

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Append states of new tokens, shape (rows, heads, new, head_dim), and return all states."""
        self.is_initialized = True
        self.device = key_states.device
        if torch.is_autocast_enabled(kind := self.device.type):
            # Rotated keys come in float32, and attention would cast all of them to the smaller type at every token.
            smaller = torch.get_autocast_dtype(kind)
            key_states, value_states = key_states.to(smaller), value_states.to(smaller)
        self.dtype = key_states.dtype
        rows, start, end = len(key_states), self._length, self._length + key_states.shape[2]
        new = (key_states, value_states)
        if not self._buffers:
            self._buffers = [states.new_empty(*states.shape[:2], end + _room(end), states.shape[3]) for states in new]
        for place, states in enumerate(new):
            buffer = self._buffers[place]
            if buffer.shape[2] < end:
                grown = buffer.new_empty(*buffer.shape[:2], end + _room(end), buffer.shape[3])
                grown[:rows, :, :start] = buffer[:rows, :, :start]
                buffer = self._buffers[place] = grown
            buffer[:rows, :, start:end] = states
        return self._use(rows, end)

    def _use(self, rows: int, length: int) -> tuple[Tensor, Tensor]:
        # Views of the used part, where transformers looks for them.
        self._rows, self._length = rows, length
        self.keys, self.values = (buffer[:rows, :, :length] for buffer in self._buffers)
        return self.keys, self.values

    def states(self) -> tuple[Tensor, Tensor]:
        """Return keys and values as views of the used part."""
        return self._use(self._rows, self._length)

    def fork(self, rows: Tensor) -> None:
        """Append copies of these rows."""
        end, used = self._rows + len(rows), self._length
        for place, buffer in enumerate(self._buffers):
            if end > len(buffer):
                grown = buffer.new_empty(max(end, 2 * len(buffer)), *buffer.shape[1:])
                grown[: self._rows, :, :used] = buffer[: self._rows, :, :used]
                buffer = self._buffers[place] = grown
            buffer[self._rows : end, :, :used] = buffer[rows, :, :used]
        self._use(end, used)

    def taken(self, rows: Tensor, columns: Tensor, length: int) -> GrowingLayer:
        """Return a layer with these rows, and of each the `columns`, shape (rows, columns).

        The first `length` columns are in use, the others are spare room.
        """
        layer = GrowingLayer()
        layer.is_initialized, layer.dtype, layer.device = self.is_initialized, self.dtype, self.device
        for buffer in self._buffers:
            # Gather rows and columns in one pass, without an intermediate copy. Layers can be on different devices.
            _, heads, capacity, head_dim = buffer.shape
            some_rows, some_columns = rows.to(buffer.device), columns.to(buffer.device)
            starts = (some_rows[:, None] * heads + torch.arange(heads, device=buffer.device)) * capacity
            places = starts[:, :, None] + some_columns[:, None, :]  # (rows, heads, columns)
            states = buffer.view(-1, head_dim).index_select(0, places.flatten())
            layer._buffers.append(states.view(*places.shape, head_dim))
        layer._use(len(rows), length)
        return layer


class GameCache:
    """The cache of a batch of games.

    `mask`, shape (rows, cached tokens), is 1 for a token of the game and 0 for a hole that attention must skip. Holes
    come from padding, since rows read different numbers of tokens.
    """

    def __init__(self, num_layers: int, rows: int, device: torch.device) -> None:
        self._hold([GrowingLayer() for _ in range(num_layers)], torch.zeros(rows, 0, dtype=torch.long, device=device))

    def _hold(self, layers: list[GrowingLayer], mask: Tensor) -> None:
        self._layers, self.mask = layers, mask
        self.cache = Cache(layers=list(layers))

    @classmethod
    def of_model(cls, model: PreTrainedModel, rows: int) -> GameCache:
        """Create an empty cache for the layers of a model."""
        text_config = model.config.get_text_config()
        return cls(text_config.num_hidden_layers - num_shared_layers(text_config), rows, model.device)

    def append_mask(self, new: Tensor) -> tuple[Tensor, Tensor]:
        """Append the mask of new tokens, shape (rows, new); return the whole mask and the new tokens' positions."""
        read = self.mask.sum(dim=1, keepdim=True)  # positions count tokens, not columns
        self.mask = torch.cat([self.mask, new], dim=1)
        return self.mask, (read + new.cumsum(dim=1) - 1).clamp(min=0)

    def keep(self, rows: Tensor) -> None:
        """Keep these rows in this order, and remove holes; a row named more than once is copied."""
        mask = self.mask[rows]
        width = int(mask.sum(dim=1).max())
        everyone = torch.arange(self.mask.shape[0], device=rows.device)
        if width == mask.shape[1] and torch.equal(rows, everyone):
            return
        columns = torch.arange(mask.shape[1], device=rows.device).expand(len(rows), -1)
        if width < mask.shape[1]:
            # A stable sort moves holes to the left and keeps the order of tokens; then cut columns that are all holes.
            columns = mask.argsort(dim=1, stable=True)[:, mask.shape[1] - width :]
            mask = mask.gather(1, columns)
        with_room = torch.cat([columns, columns.new_zeros(len(rows), _room(width))], dim=1)
        for place, layer in enumerate(self._layers):  # one after the other, so that memory never holds two caches
            self._layers[place] = self.cache.layers[place] = layer.taken(rows, with_room, width)
        self.mask = mask

    def fork(self, rows: Tensor) -> None:
        """Append copies of these rows."""
        self.mask = torch.cat([self.mask, self.mask[rows]])
        for layer in self._layers:
            layer.fork(rows)

    def part(self, rows: Tensor) -> GameCache:
        """Copy some rows into a new cache."""
        width = self.mask.shape[1]
        # Spare columns hold copies of the first ones until they are written.
        columns = torch.arange(width + _room(width), device=rows.device) % width
        part = GameCache(0, 0, rows.device)
        layers = [layer.taken(rows, columns.expand(len(rows), -1), width) for layer in self._layers]
        part._hold(layers, self.mask[rows])
        return part

    def take_back(self, part: GameCache, rows: Tensor) -> None:
        """Append the tokens that `part` has read to the rows it was copied from; other rows get holes."""
        width = self.mask.shape[1]
        new = self.mask.new_zeros(self.mask.shape[0], part.mask.shape[1] - width)
        new[rows] = part.mask[:, width:]
        self.mask = torch.cat([self.mask, new], dim=1)
        for layer, read in zip(self._layers, part._layers, strict=True):
            added = (states[:, :, width:] for states in read.states())
            layer.update(*(each.new_zeros(len(new), *each.shape[1:]).index_copy_(0, rows, each) for each in added))


def joined(first: GameCache, second: GameCache) -> GameCache:
    """Stack two caches; rows of the shorter one get holes on the left, so that all end in the same column."""
    width = max(first.mask.shape[1], second.mask.shape[1])

    def stacked(a: Tensor, b: Tensor) -> Tensor:
        return torch.cat([pad(states, (0, 0, width - states.shape[2], 0)) for states in (a, b)])

    layers = []
    for a, b in zip(first._layers, second._layers, strict=True):
        layer = GrowingLayer()
        layer.update(*map(stacked, a.states(), b.states()))
        layers.append(layer)
    both = GameCache(0, 0, first.mask.device)
    both._hold(layers, torch.cat([pad(cache.mask, (width - cache.mask.shape[1], 0)) for cache in (first, second)]))
    return both


def _room(tokens: int) -> int:
    return max(32, tokens // 2)  # spare columns; growing by half makes appending a token cheap on average


def bytes_per_token(model: PreTrainedModel) -> int:
    """Return the bytes per token of a game in a cache, spare room included; under autocast it has the smaller type."""
    text = model.config.get_text_config()
    _, kv_heads, head_dim = attention_sizes(text)
    num_layers = int(text.num_hidden_layers) - num_shared_layers(text)
    kind = model.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else model.dtype
    return 3 * num_layers * kv_heads * head_dim * dtype.itemsize  # keys, values, and half of both as spare room


def search_cache(model: PreTrainedModel, rows: int) -> GameCache | RereadCache:
    """Create an empty cache for a search, for any model."""
    return RereadCache(rows) if needs_generate(model) else GameCache.of_model(model, rows)


def next_logits(model: PreTrainedModel, cache: GameCache | RereadCache, tokens: Tensor, alive: Tensor) -> Tensor:
    """Read tokens into a cache and return the logits after the last one of each row, shape (rows, vocabulary), float32.

    `tokens` are padded on the left, shape (rows, new); `alive` is 1 on tokens and 0 on padding.
    """
    if isinstance(cache, RereadCache):
        return cache.read(model, tokens, alive)
    mask, positions = cache.append_mask(alive)
    output = model(
        input_ids=tokens,
        attention_mask=mask,
        position_ids=positions,
        past_key_values=cache.cache,
        use_cache=True,
        logits_to_keep=1,
    )
    logits: Tensor = output.logits[:, -1]
    return logits.float()


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

    `query` has shape (rows, heads, new, head_dim), `key` and `value` (rows, kv_heads, all, head_dim), and the mask,
    which is added to the scores, (rows, 1, new, all). The output has shape (rows, new, heads, head_dim).
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


AttentionInterface.register(GROUPED, grouped_attention)
AttentionMaskInterface.register(GROUPED, eager_mask)


@contextmanager
def sampling_mode(model: PreTrainedModel) -> Iterator[None]:
    """Put a model into evaluation mode, with `grouped_attention` if its own is plain, within this context."""
    was_training, before = model.training, model.config.get_text_config()._attn_implementation
    model.eval()
    if is_grouped := _fits(model):
        model.set_attn_implementation(GROUPED)
    try:
        yield
    finally:
        model.train(was_training)
        if is_grouped:
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
