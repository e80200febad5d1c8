"""Sample on MLX with mlx-lm's `BatchGenerator`, keeping each game's key/value cache across turns.

A turn reads only the feedback message and samples new tokens. Log-probabilities are those of the sampling distribution
over the whole vocabulary, and the token that ends a turn is kept.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.generate import BatchGenerator
from mlx_lm.models.cache import can_trim_prompt_cache, make_prompt_cache, trim_prompt_cache

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config.training import SamplingSettings
from wordle_rl.mlx.model import MLXModel, bar_of, mode_kept
from wordle_rl.policy.base import Completion, Request
from wordle_rl.policy.constrain import State, WordConstraint

_WORTH_A_PASS = 64
"""Length in tokens from which a common prompt prefix is read once for several games."""


@dataclass
class _Seen:
    """A game's cache, and the tokens in it."""

    cache: list[Any]
    tokens: list[int]


class MLXSampler:
    """Sample completions from an MLX model, in its evaluation mode.

    The random stream of `seed` continues across games. `constraint` limits guesses to listed words.
    """

    def __init__(
        self,
        model: MLXModel,
        codec: ChatCodec,
        settings: SamplingSettings | None = None,
        seed: int = 0,
        constraint: WordConstraint | None = None,
    ) -> None:
        self.codec = codec
        self.settings = settings or SamplingSettings()
        self._network, self._constraint = model.network, constraint
        self._bar = bar_of(codec, model.config.vocab_size)
        self._key = mx.random.key(seed)
        self._seen: dict[int, _Seen] = {}

    def begin(self) -> None:
        """Drop every cached game."""
        self._seen.clear()

    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """Sample one completion per request. Known games continue from their cache."""
        completions: list[Completion] = []
        size = self.settings.max_batch_size
        asked = {request.game_id for request in requests}
        self._seen = {game: seen for game, seen in self._seen.items() if game in asked}  # drop finished games
        with mode_kept(self._network, training=False):
            for first in range(0, len(requests), size):
                completions += self._sample_batch(requests[first : first + size])
        return completions

    def _sample_batch(self, requests: Sequence[Request]) -> list[Completion]:
        prompts, caches, read = self._continued(requests)
        generator = BatchGenerator(
            self._network,
            max_tokens=self.settings.max_completion_tokens,
            stop_tokens=[[token] for token in sorted(self.codec.stop_ids)],
            sampler=self._draw,
            completion_batch_size=len(requests),
            prefill_batch_size=len(requests),
        )
        processors = None if self._constraint is None else [[_Limited(self._constraint)] for _ in requests]
        numbers = generator.insert(prompts, caches=caches, all_tokens=read, logits_processors=processors)
        caches.clear()  # the batch has copies; free these
        place_of = {number: place for place, number in enumerate(numbers)}
        ids: list[list[int]] = [[] for _ in requests]
        logprobs: list[list[float]] = [[] for _ in requests]
        while responses := generator.next_generated():
            tokens = [response.token for response in responses]
            for response, logprob in zip(responses, self._logprobs_of(responses, tokens), strict=True):
                place = place_of[response.uid]
                ids[place].append(response.token)
                logprobs[place].append(logprob)
                if response.finish_reason is not None:
                    self._seen[requests[place].game_id] = _Seen(response.prompt_cache, list(response.all_tokens))
        generator.close()
        return [Completion.of_tokens(self.codec, *reply) for reply in zip(ids, logprobs, strict=True)]

    def _logprobs_of(self, responses: Sequence[Any], tokens: Sequence[int]) -> list[float]:
        # Under the distribution that the tokens were sampled from.
        whole = mx.stack([response.logprobs for response in responses])  # (games, vocabulary)
        drawn_from = distribution(whole, self.settings, self._bar)
        found: list[float] = mx.take_along_axis(drawn_from, mx.array(tokens)[:, None], axis=-1)[:, 0].tolist()
        if not np.isfinite(found).all():
            raise RuntimeError("the probabilities are not finite: the weights are lost; go back to a checkpoint")
        return found

    def _draw(self, logprobs: mx.array) -> mx.array:
        # One token per row of log-probabilities, shape (games, vocabulary).
        if self.settings.temperature == 0:
            return mx.argmax(logprobs if self._bar is None else logprobs + self._bar, axis=-1)
        self._key, key = mx.random.split(self._key)
        return mx.random.categorical(distribution(logprobs, self.settings, self._bar), key=key)

    def _continued(self, requests: Sequence[Request]) -> tuple[list[list[int]], list[list[Any]], list[list[int]]]:
        """Return, per request: tokens still to read, the cache of those before them, and the cached tokens."""
        shared = self._shared_beginning([request for request in requests if request.game_id not in self._seen])
        prompts, caches, read = [], [], []
        for request in requests:
            ids = list(request.prompt_ids)
            seen = self._seen.pop(request.game_id, None)
            kept = None if seen is None else _rewound(seen, ids)
            if kept is None:
                kept = shared() if shared is not None else _Seen(make_prompt_cache(self._network), [])
            prompts.append(ids[len(kept.tokens) :])
            caches.append(kept.cache)
            read.append(kept.tokens)
        return prompts, caches, read

    def _shared_beginning(self, requests: Sequence[Request]) -> Callable[[], _Seen] | None:
        """Read the common prefix of prompts once. Return a function that copies its cache; None if it is short."""
        if len(requests) < 2:
            return None
        prompts = [list(request.prompt_ids) for request in requests]
        length = min(_same_start(min(prompts), max(prompts)), min(map(len, prompts)) - 1)
        if length < _WORTH_A_PASS:
            return None
        cache = make_prompt_cache(self._network)
        tokens = prompts[0][:length]
        self._network(mx.array([tokens]), cache=cache)
        mx.eval([layer.state for layer in cache])
        return lambda: _Seen([copy.copy(layer) for layer in cache], list(tokens))


class _Limited:
    """A logits processor that allows only tokens with which a guess can become a listed word."""

    def __init__(self, constraint: WordConstraint) -> None:
        self._constraint = constraint
        self._state: State | None = None

    def __call__(self, tokens: mx.array, logits: mx.array) -> mx.array:
        """Set logits, shape (1, vocabulary), to minus infinity at tokens that may not follow."""
        first = self._state is None
        self._state = self._constraint.start if first else self._constraint.after(self._state, int(tokens[-1].item()))
        allowed = self._constraint.allowed(self._state)
        if allowed is None:
            return logits
        mask = np.full(logits.shape, -np.inf, dtype=np.float32)
        mask[0, allowed] = 0.0
        return logits + mx.array(mask).astype(logits.dtype)


def distribution(logprobs: mx.array, settings: SamplingSettings, bar: mx.array | None = None) -> mx.array:
    """Return the log-probabilities of the sampling distribution, same shape (rows, vocabulary); see `bar_of`.

    At temperature 0 they are those of temperature 1.
    """
    logprobs = logprobs.astype(mx.float32)
    if settings.temperature not in (0, 1) or bar is not None:
        logprobs = logprobs / (settings.temperature or 1.0)
        logprobs = logprobs if bar is None else logprobs + bar
        logprobs = logprobs - mx.logsumexp(logprobs, axis=-1, keepdims=True)
    return logprobs


def _rewound(seen: _Seen, ids: Sequence[int]) -> _Seen | None:
    """Trim a cache to its common prefix with a prompt, leaving at least one token to read; None if it cannot."""
    length = min(_same_start(seen.tokens, ids), len(ids) - 1)
    too_many = len(seen.tokens) - length
    if too_many:
        if not length or not can_trim_prompt_cache(seen.cache):
            return None
        trim_prompt_cache(seen.cache, too_many)
    return _Seen(seen.cache, seen.tokens[:length])


def _same_start(a: Sequence[int], b: Sequence[int]) -> int:
    return next((place for place, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
