"""Sampling from a transformers model with a key/value cache kept across the turns of a game.

A turn costs one forward pass over the words that came back and one per new token; nothing is read twice.
Works for every causal model of transformers whose layers attend to keys and values, since it only uses
`attention_mask`, `position_ids` and a cache. A sliding window counts cached tokens, holes included; once a batch may
outgrow the window, it is therefore read afresh each turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from wordle_rl.chat import ChatCodec
from wordle_rl.config import SamplingSettings
from wordle_rl.samplers.base import Completion, Request
from wordle_rl.samplers.kv_cache import GameCache

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

_KNOWN_LAYERS = {"full_attention", "sliding_attention"}


class _Batch:
    """The games that share one cache."""

    def __init__(self) -> None:
        self.cache: GameCache | None = None
        self.row_of: dict[int, int] = {}
        self.fed: dict[int, list[int]] = {}  # the token ids of each game that the cache holds


class TransformersSampler:
    """Samples replies from a model in this process.

    Args:
        model: Any causal language model; it is put into evaluation mode while it samples.
        codec: Its tokenizer and chat template.
        settings: How tokens are drawn.
        seed: Seed of the sampler's own random stream, which runs on over all games.

    Raises:
        ValueError: If the model has layers that remember otherwise than by keys and values.
    """

    def __init__(
        self, model: PreTrainedModel, codec: ChatCodec, settings: SamplingSettings | None = None, seed: int = 0
    ) -> None:
        self.codec: ChatCodec | None = codec
        self._codec = codec
        self.model = model
        self.settings = settings or SamplingSettings()
        self._generator = torch.Generator(device=model.device).manual_seed(seed)
        self._batches: list[_Batch] = []
        self._batch_of: dict[int, _Batch] = {}
        text_config = model.config.get_text_config()
        self._num_layers = int(text_config.num_hidden_layers)
        self._window = _sliding_window(text_config)

    def begin(self) -> None:
        """Drop every cached game."""
        self._batches.clear()
        self._batch_of.clear()

    @torch.no_grad()
    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """Sample one reply per request; games seen before go on from their cache."""
        was_training = self.model.training
        self.model.eval()
        self._place(requests)
        completions: dict[int, Completion] = {}
        for batch in self._batches:
            present = [request for request in requests if self._batch_of[request.game_id] is batch]
            if present:
                completions.update(self._sample_batch(batch, present))
            else:  # all its games are over: its cache goes
                self._batch_of = {game: other for game, other in self._batch_of.items() if other is not batch}
        self._batches = [batch for batch in self._batches if batch in self._batch_of.values()]
        self.model.train(was_training)
        return [completions[request.game_id] for request in requests]

    def _place(self, requests: Sequence[Request]) -> None:
        """Give every new game a batch with room."""
        new = [request.game_id for request in requests if request.game_id not in self._batch_of]
        size = self.settings.max_batch_size
        for start in range(0, len(new), size):
            batch = _Batch()
            self._batches.append(batch)
            self._batch_of.update(dict.fromkeys(new[start : start + size], batch))

    def _sample_batch(self, batch: _Batch, requests: Sequence[Request]) -> dict[int, Completion]:
        cache = self._cache_for(batch, requests)
        unread = [list(request.prompt_ids[len(batch.fed[request.game_id]) :]) for request in requests]
        token_ids, logprobs = self._generate(cache, unread)
        completions = {}
        for row, request in enumerate(requests):
            ids = token_ids[row]
            # The last sampled token was never fed back, so the cache ends one token before it.
            batch.fed[request.game_id] = [*request.prompt_ids, *ids[:-1]]
            completions[request.game_id] = Completion(
                text=self._codec.text_of(ids),
                token_ids=tuple(ids),
                logprobs=tuple(logprobs[row]),
                overlong=ids[-1] not in self._codec.stop_ids,
            )
        return completions

    def _cache_for(self, batch: _Batch, requests: Sequence[Request]) -> GameCache:
        """The batch's cache with one row per request, or a fresh one where prompts do not go on from it."""
        goes_on = all(
            request.game_id in batch.row_of
            and len(fed := batch.fed[request.game_id]) < len(request.prompt_ids)
            and list(request.prompt_ids[: len(fed)]) == fed
            for request in requests
        )
        if batch.cache is not None and goes_on and self._within_window(batch, requests):
            rows = torch.tensor([batch.row_of[request.game_id] for request in requests], device=self.model.device)
            batch.cache.keep(rows)
        else:
            batch.cache = GameCache(self._num_layers, len(requests), self.model.device)
            batch.fed = {request.game_id: [] for request in requests}
        batch.row_of = {request.game_id: row for row, request in enumerate(requests)}
        return batch.cache

    def _within_window(self, batch: _Batch, requests: Sequence[Request]) -> bool:
        """Whether the cache stays inside the model's sliding window over the coming turn, holes and all."""
        if self._window is None:
            return True
        fed = max(len(batch.fed[request.game_id]) for request in requests)
        unread = max(len(request.prompt_ids) - len(batch.fed[request.game_id]) for request in requests)
        return fed + unread + self.settings.max_completion_tokens <= self._window

    def _generate(self, cache: GameCache, unread: list[list[int]]) -> tuple[list[list[int]], list[list[float]]]:
        """Read each row's unread tokens, then sample until every row has closed its turn."""
        device = self.model.device
        width = max(len(ids) for ids in unread)
        tokens = torch.tensor([[self._codec.pad_id] * (width - len(ids)) + ids for ids in unread], device=device)
        alive = torch.tensor([[0] * (width - len(ids)) + [1] * len(ids) for ids in unread], device=device)
        stops = torch.tensor(sorted(self._codec.stop_ids), device=device)
        running = torch.ones(len(unread), dtype=torch.bool, device=device)
        sampled: list[Tensor] = []
        scores: list[Tensor] = []
        lengths = torch.zeros(len(unread), dtype=torch.long, device=device)
        for _ in range(self.settings.max_completion_tokens):
            mask, positions = cache.append_mask(alive)
            logits = self.model(
                input_ids=tokens,
                attention_mask=mask,
                position_ids=positions,
                past_key_values=cache.cache,
                use_cache=True,
                logits_to_keep=1,
            ).logits[:, -1]
            chosen, chosen_logprobs = self._draw(logits.float())
            sampled.append(chosen)
            scores.append(chosen_logprobs)
            lengths += running
            running = running & ~torch.isin(chosen, stops)
            if not running.any():
                break
            tokens = chosen.masked_fill(~running, self._codec.pad_id)[:, None]
            alive = running.long()[:, None]
        ids, logprobs = torch.stack(sampled, 1).tolist(), torch.stack(scores, 1).tolist()
        ends = lengths.tolist()
        return (
            [row[:end] for row, end in zip(ids, ends, strict=True)],
            [row[:end] for row, end in zip(logprobs, ends, strict=True)],
        )

    def _draw(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Draw one token per row of logits (rows, vocabulary) and say how likely it was."""
        temperature = self.settings.temperature
        if temperature == 0:
            chosen = logits.argmax(dim=-1)
            return chosen, logits.log_softmax(-1).gather(1, chosen[:, None])[:, 0]
        logprobs = (logits / temperature).log_softmax(-1)
        if self.settings.top_p < 1:
            logprobs = _keep_top_p(logprobs, self.settings.top_p)
        chosen = torch.multinomial(logprobs.exp(), 1, generator=self._generator)
        return chosen[:, 0], logprobs.gather(1, chosen)[:, 0]


def _sliding_window(text_config: PreTrainedConfig) -> int | None:
    """The width of the model's sliding window in tokens, None if every layer sees everything."""
    layer_types = getattr(text_config, "layer_types", None)
    if unknown := set(layer_types or ()) - _KNOWN_LAYERS:
        raise ValueError(f"a model with {', '.join(sorted(unknown))} layers cannot be sampled here; use vLLM instead")
    if layer_types is not None and "sliding_attention" not in layer_types:
        return None
    return getattr(text_config, "sliding_window", None)


def _keep_top_p(logprobs: Tensor, top_p: float) -> Tensor:
    """Renormalise over the smallest set of tokens whose probability reaches `top_p`; shape kept."""
    ordered, order = logprobs.sort(dim=-1, descending=True)
    probability_before = ordered.exp().cumsum(-1) - ordered.exp()
    kept = torch.zeros_like(logprobs, dtype=torch.bool).scatter(1, order, probability_before < top_p)
    return logprobs.masked_fill(~kept, float("-inf")).log_softmax(-1)
