"""Sampling from a transformers model with a key/value cache kept across the turns of a game.

A turn costs one forward pass over the feedback message and one per new token; nothing is read twice.
Works for every causal model of transformers whose layers attend to keys and values, since it only uses
`attention_mask`, `position_ids` and a cache. A sliding window counts cached tokens, holes included; once a batch may
outgrow the window, it is therefore read afresh each turn. Models with other layers are sampled by transformers' own
`generate` (see `generate.py`), which reads the whole prompt each turn.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import EngineName, SamplingSettings
from wordle_rl.runs.provenance import main_memory_bytes, resident_memory_gib
from wordle_rl.samplers.attention import grouped
from wordle_rl.samplers.base import Completion, Request, word_beam
from wordle_rl.samplers.batches import Batch, Batches
from wordle_rl.samplers.constrain import State, WordConstraint
from wordle_rl.samplers.drawing import draw, limited
from wordle_rl.samplers.generate import generate, needs_generate, read_alike
from wordle_rl.samplers.kv_cache import GameCache, bytes_per_token, next_logits
from wordle_rl.samplers.likeliest_word import WordSearch, opening_of

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

logger = logging.getLogger(__name__)

_LOGITS = 24
"""Bytes a game takes for each word of the vocabulary while a token is drawn."""
_CPU_BATCH = 256
"""Rows at once on a CPU: enough for its matrix products to run at full speed, few enough for its caches."""
_WORTH_A_PASS = 256
"""Tokens that reading a shared beginning first must save."""


class _Replies:
    """Token buffer of one turn's completions.

    `running`, shape (games,): whether the completion of each game in play (of the last `narrow`) continues. Tokens
    are gathered on the device and read from it when a set of games is left, since every read waits for the device.
    """

    def __init__(self, num_games: int, stops: Tensor) -> None:
        self.ids: list[list[int]] = [[] for _ in range(num_games)]
        self.logprobs: list[list[float]] = [[] for _ in range(num_games)]
        self._stops = stops
        self._play(list(range(num_games)))

    def _play(self, games: list[int]) -> None:
        self._games = games
        self.running = torch.ones(len(games), dtype=torch.bool, device=self._stops.device)
        self._lengths = torch.zeros(len(games), dtype=torch.long, device=self._stops.device)
        self._tokens: list[Tensor] = []
        self._scores: list[Tensor] = []

    def add(self, tokens: Tensor, logprobs: Tensor) -> None:
        """Add one token to every running reply; shape (games,), of which those of replies that are done are ignored."""
        self._tokens.append(tokens)
        self._scores.append(logprobs)
        self._lengths += self.running
        self.running = self.running & ~torch.isin(tokens, self._stops)

    def narrow(self, kept: Tensor) -> None:
        """Keep only these of the games in play."""
        self.finish()
        self._play([self._games[place] for place in kept.tolist()])

    def finish(self) -> None:
        """Put what was added into `ids` and `logprobs`."""
        tokens, scores = torch.stack(self._tokens, 1).tolist(), torch.stack(self._scores, 1).tolist()
        for game, row, row_scores, end in zip(self._games, tokens, scores, self._lengths.tolist(), strict=True):
            self.ids[game] += row[:end]
            self.logprobs[game] += row_scores[:end]


class TransformersSampler:
    """Samples replies from a model in this process.

    Args:
        model: Any causal language model; it is put into evaluation mode while it samples.
        codec: Its tokenizer and chat template.
        settings: How tokens are drawn.
        seed: Seed of the sampler's own random stream, which runs on over all games.
        constraint: Limits guesses to listed words, see `make_constraint`; None: any token may follow. A greedy reply
            names the likeliest of them (`likeliest_word`).
    """

    sampled_by: EngineName = "transformers"

    def __init__(
        self,
        model: PreTrainedModel,
        codec: ChatCodec,
        settings: SamplingSettings | None = None,
        seed: int = 0,
        constraint: WordConstraint | None = None,
    ) -> None:
        self.codec = codec
        self.model = model
        self.settings = settings or SamplingSettings()
        self._constraint = constraint
        self._generator = torch.Generator(device=model.device).manual_seed(seed)
        text_config = model.config.get_text_config()
        self._by_generate = needs_generate(model)
        self._window = _sliding_window(text_config)
        most = self.settings.max_batch_size
        size = min(most, _CPU_BATCH) if model.device.type == "cpu" else most
        self._size, self._keeps_caches = size, True
        self._batches = Batches(size, most, self.settings.max_completion_tokens, self._window)
        # A search has a cache of its own, beside that of the games.
        self._search_rows = size if model.device.type == "cpu" else size // 4
        self._word_beam = word_beam(self.sampled_by, self.settings.temperature, constrained=constraint is not None)

    def begin(self) -> None:
        """Drop every cached game."""
        self._batches.clear()

    def room_for(self, num_tokens: int) -> int:
        """See `MemoryBound`."""
        each = num_tokens * bytes_per_token(self.model) + _LOGITS * self.model.config.get_text_config().vocab_size
        free = free_memory(self.model.device)
        return self.settings.max_batch_size if free is None else max(1, free // each)

    @torch.no_grad()
    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """Sample one reply per request; games seen before continue from their cache.

        When memory runs out, every cache is dropped, and from then on batches of half the size are read from their
        start each turn, one after the other.
        """
        completions: dict[int, Completion] = {}
        with sampling_mode(self.model):
            while missing := [request for request in requests if request.game_id not in completions]:
                try:
                    self._sample_into(completions, missing)
                except torch.OutOfMemoryError:
                    if self._size == 1:
                        raise
                    self._size //= 2
                    self._keeps_caches = False
                    self._batches.clear()
                    self._batches.size = self._size
                    logger.warning("out of memory: %d games are played at once from now on", self._size)
        return [completions[request.game_id] for request in requests]

    def _sample_into(self, completions: dict[int, Completion], requests: Sequence[Request]) -> None:
        """Add the completion of each request."""
        if self._by_generate:
            self._generate_into(completions, requests)
            return
        for batch, asking in self._batches.arrange(requests).items():
            completions.update(self._sample_batch(batch, asking))
            if not self._keeps_caches:
                batch.cache = None

    def _sample_batch(self, batch: Batch, requests: Sequence[Request]) -> dict[int, Completion]:
        if batch.cache is None:
            batch.cache, logits = self._open(batch.unread)
        else:
            logits = self._read(batch.cache, batch.unread)
        rows = torch.tensor([batch.row_of[request.game_id] for request in requests], device=logits.device)
        replies, rows = self._reply(batch.cache, logits, rows)
        batch.row_of = {request.game_id: row for request, row in zip(requests, rows.tolist(), strict=True)}
        for request, ids in zip(requests, replies.ids, strict=True):
            # The last sampled token was never fed back, so the cache ends one token before it.
            batch.fed[request.game_id] = [*request.prompt_ids, *ids[:-1]]
        return dict(zip((request.game_id for request in requests), self._completions(requests, replies), strict=True))

    def _generate_into(self, found: dict[int, Completion], requests: Sequence[Request]) -> None:
        """Add the completion of each request by transformers' `generate`, each prompt read from its start."""
        stops = torch.tensor(sorted(self.codec.stop_ids), device=self.model.device)
        for places in read_alike(self.model, [len(request.prompt_ids) for request in requests]):
            for first in range(0, len(places), self._size):
                part = [requests[place] for place in places[first : first + self._size]]
                replies = _Replies(len(part), stops)
                states: Sequence[State | None] = [self._constraint.start if self._constraint else None] * len(part)

                def choose(logits: Tensor, replies: _Replies = replies) -> Tensor:
                    nonlocal states
                    chosen, logprobs = self._choose(logits, states, replies.running)
                    replies.add(chosen, logprobs)
                    states = self._after(states, chosen)
                    return chosen

                prompts = [request.prompt_ids for request in part]
                limit = self.settings.max_completion_tokens
                generate(self.model, prompts, limit, self.codec.stop_ids, self.codec.pad_id, choose)
                replies.finish()
                found |= dict(zip((request.game_id for request in part), self._completions(part, replies), strict=True))

    def _completions(self, requests: Sequence[Request], replies: _Replies) -> list[Completion]:
        self._name_likeliest(requests, replies)
        return [
            Completion(
                text=self.codec.text_of(ids),
                token_ids=tuple(ids),
                sampler_logprobs=tuple(logprobs),
                overlong=ids[-1] not in self.codec.stop_ids,
            )
            for ids, logprobs in zip(replies.ids, replies.logprobs, strict=True)
        ]

    def _name_likeliest(self, requests: Sequence[Request], replies: _Replies) -> None:
        """Let greedy replies that are limited to listed words name the likeliest, whatever their first letters."""
        if self._word_beam is None or self._constraint is None:
            return
        found = {}
        for game, (request, ids) in enumerate(zip(requests, replies.ids, strict=True)):
            if (opening := opening_of(request.prompt_ids, ids, self._constraint)) is not None:
                found[game] = opening
        words = WordSearch(self.model, self._constraint, self.codec.stop_ids, self.codec.pad_id, self._word_beam)
        endings = words.search([*found.values()], self.settings.max_completion_tokens, self._search_rows)
        for (game, opening), ending in zip(found.items(), endings, strict=True):
            if ending is not None:
                kept = opening.num_reply_tokens
                replies.ids[game][kept:], replies.logprobs[game][kept:] = ending.token_ids, ending.logprobs

    def _open(self, prompts: list[list[int]]) -> tuple[GameCache, Tensor]:
        """Read whole prompts, all different, into a new cache; a long beginning that all share is read once."""
        device = self.model.device
        shared = min(_same_start(min(prompts), max(prompts)), min(map(len, prompts)) - 1)
        longest = max(map(len, prompts)) + self.settings.max_completion_tokens
        if shared * (len(prompts) - 1) < _WORTH_A_PASS or (self._window is not None and longest > self._window):
            shared = 0
        cache = GameCache.of_model(self.model, 1 if shared else len(prompts))
        if shared:
            self._read(cache, [prompts[0][:shared]])
            cache.keep(torch.zeros(len(prompts), dtype=torch.long, device=device))
        return cache, self._read(cache, [prompt[shared:] for prompt in prompts])

    def _read(self, cache: GameCache, unread: list[list[int]]) -> Tensor:
        """Read each row's tokens; the logits after its last one, shape (rows, vocabulary)."""
        device = self.model.device
        width = max(len(ids) for ids in unread)
        tokens = torch.tensor([[self.codec.pad_id] * (width - len(ids)) + ids for ids in unread], device=device)
        alive = torch.tensor([[0] * (width - len(ids)) + [1] * len(ids) for ids in unread], device=device)
        return next_logits(self.model, cache, tokens, alive)

    def _reply(self, cache: GameCache, logits: Tensor, rows: Tensor) -> tuple[_Replies, Tensor]:
        """Sample from the first logits on, until every game has closed its turn or used up its tokens.

        Games share a row of the cache until their tokens differ. Once half of the rows are done, the others move to
        a smaller cache, which is merged back at the end.

        Args:
            cache: What was read so far.
            logits: For the next token of each row, shape (rows, vocabulary).
            rows: The row of each game, shape (games,).

        Returns:
            The replies, and the row of each game at their end.
        """
        replies = _Replies(len(rows), torch.tensor(sorted(self.codec.stop_ids), device=logits.device))
        states: Sequence[State | None] = [self._constraint.start if self._constraint else None] * len(rows)
        left_behind: list[tuple[GameCache, Tensor, Tensor]] = []  # a cache, its row of each game, rows that went on
        for tokens_left in reversed(range(self.settings.max_completion_tokens)):
            chosen, logprobs = self._choose(logits[rows], states, replies.running)
            replies.add(chosen, logprobs)
            if not tokens_left or not replies.running.any():
                break
            states = self._after(states, chosen)
            rows, tokens, alive = self._branch(cache, rows, chosen, replies.running)
            going = replies.running.nonzero()[:, 0]
            no_row_is_shared = len(going) == int(alive.sum())
            if no_row_is_shared and 2 * len(going) <= len(alive):
                taken = rows[going]
                left_behind.append((cache, rows, taken))
                cache, rows = cache.part(taken), torch.arange(len(going), device=going.device)
                states = [states[game] for game in going.tolist()]
                tokens, alive = chosen[going, None], torch.ones_like(going)[:, None]
                replies.narrow(going)
            logits = next_logits(self.model, cache, tokens, alive)
        replies.finish()
        for whole, rows_before, taken in reversed(left_behind):
            whole.take_back(cache, taken)
            cache, rows = whole, rows_before
        return replies, rows

    def _after(self, states: Sequence[State | None], tokens: Tensor) -> Sequence[State | None]:
        """Grammar positions of the replies after one more token."""
        if self._constraint is None:
            return states
        return [self._constraint.after(*pair) for pair in zip(states, tokens.tolist(), strict=True)]

    def _branch(self, cache: GameCache, rows: Tensor, chosen: Tensor, running: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Give games that shared a row and now differ rows of their own; games that are done count as one choice.

        Returns:
            The row of each game, and for each row the token it reads next and 1, or padding and 0; shape (rows, 1).
        """
        beyond = int(chosen.max()) + 1
        choices = rows * (beyond + 1) + chosen.masked_fill(~running, beyond)
        branches, branch_of = choices.unique(return_inverse=True)  # by row, then by choice
        row_of, choice_of = branches // (beyond + 1), branches % (beyond + 1)
        further = torch.cat([row_of.new_zeros(1, dtype=torch.bool), row_of[1:] == row_of[:-1]])
        if further.any():
            first_new = len(cache.mask)
            cache.fork(row_of[further])
            row_of = row_of.masked_scatter(further, torch.arange(first_new, len(cache.mask), device=rows.device))
        alive = torch.zeros(len(cache.mask), 1, dtype=torch.long, device=rows.device)
        tokens = torch.full_like(alive, self.codec.pad_id)
        alive[row_of, 0] = (choice_of < beyond).long()
        tokens[row_of, 0] = choice_of.where(choice_of < beyond, self.codec.pad_id)
        return row_of[branch_of], tokens, alive

    def _choose(self, logits: Tensor, states: Sequence[State | None], running: Tensor) -> tuple[Tensor, Tensor]:
        if self._constraint is not None:
            logits = limited(logits, self._constraint, states, running)
        return draw(logits, self.settings, self._generator)


def _same_start(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the common prefix of two prompts, in tokens."""
    return next((place for place, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


@contextmanager
def sampling_mode(model: PreTrainedModel) -> Iterator[None]:
    """The model in evaluation mode with grouped attention; its mode is restored on exit."""
    was_training = model.training
    model.eval()
    try:
        with grouped(model):
            yield
    finally:
        model.train(was_training)


def _sliding_window(text_config: PreTrainedConfig) -> int | None:
    """The width of the model's sliding window in tokens, None if every layer sees everything."""
    layer_types = getattr(text_config, "layer_types", None)
    if layer_types is not None and "sliding_attention" not in layer_types:
        return None
    return getattr(text_config, "sliding_window", None)


def free_memory(device: torch.device) -> int | None:
    """Bytes that games may take on a device; None if unknown. Of main memory a fifth stays free."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    total, taken = main_memory_bytes(), resident_memory_gib()
    return None if total is None or taken is None else max(0, int(0.8 * (total - taken * 2**30)))
