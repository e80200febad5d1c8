"""Sampling from a transformers model, with a key/value cache kept across the turns of a game.

A turn costs one forward pass over the feedback message and one per new token; nothing is read twice. This needs only
`attention_mask`, `position_ids` and a cache, so it works for every causal model whose layers have keys and values.
Models with other layers use transformers' own `generate` (uncached.py), which reads the whole prompt every turn.

A sliding window counts cached tokens, holes included. A batch that could outgrow the window is therefore read afresh
every turn.
"""

from __future__ import annotations

import logging
import os.path
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config.training import SamplingSettings
from wordle_rl.policy.base import Completion, Request
from wordle_rl.policy.constrain import State, WordConstraint, word_beam
from wordle_rl.policy.kv_cache import GameCache, bytes_per_token, joined, next_logits, sampling_mode
from wordle_rl.policy.next_token import draw, limited
from wordle_rl.policy.uncached import generate, left_padded, needs_generate
from wordle_rl.policy.word_search import WordSearch, opening_of
from wordle_rl.runs.provenance import unused_memory_bytes

if TYPE_CHECKING:
    from transformers import PreTrainedModel

logger = logging.getLogger(__name__)

_LOGITS = 24
"""Bytes per game and vocabulary entry while a token is drawn."""
_CPU_BATCH = 256
"""Rows per batch on a CPU: enough for fast matrix products, few enough for its caches."""
_WORTH_A_PASS = 256
"""Read a shared prefix in a pass of its own only if that saves this many tokens."""


class _Replies:
    # The completions of one turn. `running`, shape (games,), says which of the games since the last `narrow` continue.
    # Tokens stay on the device until a set of games is finished, since every read waits for the device.

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
        """Append one token per game, shape (games,); those of finished replies are ignored."""
        self._tokens.append(tokens)
        self._scores.append(logprobs)
        self._lengths += self.running
        self.running = self.running & ~torch.isin(tokens, self._stops)

    def narrow(self, kept: Tensor) -> None:
        """Continue with these games only."""
        self.finish()
        self._play([self._games[place] for place in kept.tolist()])

    def finish(self) -> None:
        """Move the tokens into `ids` and `logprobs`."""
        tokens, scores = torch.stack(self._tokens, 1).tolist(), torch.stack(self._scores, 1).tolist()
        for game, row, row_scores, end in zip(self._games, tokens, scores, self._lengths.tolist(), strict=True):
            self.ids[game] += row[:end]
            self.logprobs[game] += row_scores[:end]


class TransformersSampler:
    """Sample replies from a causal language model in this process.

    The random stream of `seed` continues over all games. With a constraint (`make_constraint`), greedy replies name the
    likeliest listed word (`WordSearch`).
    """

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
        unknown = codec.unknown_ids(text_config.vocab_size)
        self._unknown = torch.tensor(unknown, device=model.device) if unknown else None  # ids that no token has
        self._by_generate = needs_generate(model)
        slides = "sliding_attention" in (getattr(text_config, "layer_types", None) or ("sliding_attention",))
        self._window: int | None = getattr(text_config, "sliding_window", None) if slides else None
        most = self.settings.max_batch_size
        size = min(most, _CPU_BATCH) if model.device.type == "cpu" else most
        self._size, self._keeps_caches = size, True
        self._batches = Batches(size, most, self.settings.max_completion_tokens, self._window)
        # The beam search needs memory for a second cache.
        self._search_rows = size if model.device.type == "cpu" else size // 4
        self._word_beam = word_beam("transformers", self.settings.temperature, constrained=constraint is not None)

    def begin(self) -> None:
        """Drop every cached game."""
        self._batches.clear()

    def room_for(self, num_tokens: int) -> int:
        """Return how many games of this many tokens fit into memory now; at least 1."""
        each = num_tokens * bytes_per_token(self.model) + _LOGITS * self.model.config.get_text_config().vocab_size
        free = free_memory(self.model.device)
        return self.settings.max_batch_size if free is None else max(1, free // each)

    @torch.no_grad()
    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """Sample one reply per request; games seen before continue from their cache.

        If memory runs out, all caches are dropped. From then on batches have half the size and are read from the start
        every turn.
        """
        completions: dict[int, Completion] = {}
        with sampling_mode(self.model):
            while missing := [request for request in requests if request.game_id not in completions]:
                try:
                    if self._by_generate:
                        self._generate_into(completions, missing)
                        continue
                    for batch, asking in self._batches.arrange(missing).items():
                        completions.update(self._sample_batch(batch, asking))
                        if not self._keeps_caches:
                            batch.cache = None
                except torch.OutOfMemoryError:
                    if self._size == 1:
                        raise
                    self._size //= 2
                    self._keeps_caches = False
                    self._batches.clear()
                    self._batches.size = self._size
                    logger.warning("out of memory: only %d games at a time from now on", self._size)
        return [completions[request.game_id] for request in requests]

    def _sample_batch(self, batch: Slots, requests: Sequence[Request]) -> dict[int, Completion]:
        if batch.cache is None:
            batch.cache, logits = self._open(batch.unread)
        else:
            logits = self._read(batch.cache, batch.unread)
        rows = torch.tensor([batch.row_of[request.game_id] for request in requests], device=logits.device)
        replies, rows = self._reply(batch.cache, logits, rows)
        batch.row_of = {request.game_id: row for request, row in zip(requests, rows.tolist(), strict=True)}
        for request, ids in zip(requests, replies.ids, strict=True):
            # The last sampled token was never read, so the cache ends before it.
            batch.fed[request.game_id] = [*request.prompt_ids, *ids[:-1]]
        return dict(zip((request.game_id for request in requests), self._completions(requests, replies), strict=True))

    def _generate_into(self, found: dict[int, Completion], requests: Sequence[Request]) -> None:
        stops = torch.tensor(sorted(self.codec.stop_ids), device=self.model.device)
        for first in range(0, len(requests), self._size):
            part = requests[first : first + self._size]
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
        return [Completion.of_tokens(self.codec, *reply) for reply in zip(replies.ids, replies.logprobs, strict=True)]

    def _name_likeliest(self, requests: Sequence[Request], replies: _Replies) -> None:
        # Replace the guess of each constrained greedy reply by the likeliest listed word.
        if self._word_beam is None or self._constraint is None:
            return
        found = {}
        for game, (request, ids) in enumerate(zip(requests, replies.ids, strict=True)):
            if (opening := opening_of(request.prompt_ids, ids, self._constraint.grammar)) is not None:
                found[game] = opening
        words = WordSearch(self.model, self._constraint, self.codec.stop_ids, self.codec.pad_id, self._word_beam)
        endings = words.search([*found.values()], self.settings.max_completion_tokens, self._search_rows)
        for (game, opening), ending in zip(found.items(), endings, strict=True):
            if ending is not None:
                kept = opening.num_reply_tokens
                replies.ids[game][kept:], replies.logprobs[game][kept:] = ending.token_ids, ending.logprobs

    def _open(self, prompts: list[list[int]]) -> tuple[GameCache, Tensor]:
        # Read prompts into a new cache, a long common prefix only once.
        same = len(os.path.commonprefix(prompts))  # noqa: RUF071  # of lists of tokens
        shared = min(same, min(map(len, prompts)) - 1)  # every row must read at least one token for its logits
        longest = max(map(len, prompts)) + self.settings.max_completion_tokens
        if shared * (len(prompts) - 1) < _WORTH_A_PASS or (self._window is not None and longest > self._window):
            shared = 0
        cache = GameCache.of_model(self.model, 1 if shared else len(prompts))
        if shared:
            self._read(cache, [prompts[0][:shared]])
            cache.keep(torch.zeros(len(prompts), dtype=torch.long, device=self.model.device))
        return cache, self._read(cache, [prompt[shared:] for prompt in prompts])

    def _read(self, cache: GameCache, unread: list[list[int]]) -> Tensor:
        padded = left_padded(unread, self.codec.pad_id, self.model.device)
        return next_logits(self.model, cache, *padded)  # (rows, vocabulary)

    def _reply(self, cache: GameCache, logits: Tensor, rows: Tensor) -> tuple[_Replies, Tensor]:
        # Sample until every game has closed its turn or used up its tokens. `logits`, shape (rows, vocabulary), are for
        # the first token; `rows`, shape (games,), is the row of each game. Games share a row until their tokens differ.
        replies = _Replies(len(rows), torch.tensor(sorted(self.codec.stop_ids), device=logits.device))
        states: Sequence[State | None] = [self._constraint.start if self._constraint else None] * len(rows)
        left_behind: list[tuple[GameCache, Tensor, Tensor]] = []  # a cache, the row of each game, rows that went on
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
                # Half of the rows are done: continue with the others in a smaller cache, which is merged back below.
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
        if self._constraint is None:
            return states
        return [self._constraint.after(*pair) for pair in zip(states, tokens.tolist(), strict=True)]

    def _branch(self, cache: GameCache, rows: Tensor, chosen: Tensor, running: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        # Give games that share a row but chose different tokens rows of their own. Returns the row of each game and,
        # per row, the next token and 1, or padding and 0; shape (rows, 1). A (row, token) pair is encoded as one
        # integer; finished games count as one more token, `beyond`.
        beyond = int(chosen.max()) + 1
        choices = rows * (beyond + 1) + chosen.masked_fill(~running, beyond)
        branches, branch_of = choices.unique(return_inverse=True)  # sorted by row, then by token
        row_of, choice_of = branches // (beyond + 1), branches % (beyond + 1)
        # The first branch keeps the row, the others get copies of it.
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
        if self._unknown is not None:
            logits = logits.index_fill(-1, self._unknown, -torch.inf)
        if self._constraint is not None:
            logits = limited(logits, self._constraint, states, running)
        return draw(logits, self.settings, self._generator)


def free_memory(device: torch.device) -> int | None:
    """Return the bytes that games can use on a device; None if unknown. A fifth of the unused main memory stays so."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    left = unused_memory_bytes()
    return None if left is None else int(0.8 * left)


# --- batches: which games share a cache, and which share a row of it ----------------------------------------------


class Slots:
    """Games that share a cache. Games with the same tokens so far share a row of it."""

    def __init__(self) -> None:
        self.cache: GameCache | None = None
        self.row_of: dict[int, int] = {}
        self.fed: dict[int, list[int]] = {}  # the token ids of each game in the cache
        self.unread: list[list[int]] = []  # the token ids that each row reads next

    def absorb(self, other: Slots) -> None:
        """Append the rows of another batch."""
        first = len(self.unread)
        if self.cache is not None and other.cache is not None:
            self.cache = joined(self.cache, other.cache)
        self.row_of |= {game: first + row for game, row in other.row_of.items()}
        self.fed |= other.fed
        self.unread += other.unread


class Batches:
    """All games in play, in batches of `size` rows, which a forward pass handles well.

    A batch has at most `max_games` games, even if they share rows. A cache must not outgrow the model's sliding
    `window`, in tokens, holes included.
    """

    def __init__(self, size: int, max_games: int, max_completion_tokens: int, window: int | None) -> None:
        self.size, self._max_games = size, max_games
        self._max_completion_tokens, self._window = max_completion_tokens, window
        self._batch_of: dict[int, Slots] = {}

    def clear(self) -> None:
        """Drop every game and its cache."""
        self._batch_of.clear()

    def arrange(self, requests: Sequence[Request]) -> dict[Slots, list[Request]]:
        """Return the batches to sample this turn, with their requests; batches without a request are dropped."""
        new = [request.game_id for request in requests if request.game_id not in self._batch_of]
        for start in range(0, len(new), self.size):
            self._batch_of.update(dict.fromkeys(new[start : start + self.size], Slots()))
        present: dict[Slots, list[Request]] = {}
        for request in requests:
            present.setdefault(self._batch_of[request.game_id], []).append(request)
        for batch, asking in present.items():
            self._line_up(batch, asking)
        batches = dict(self._joined(present))
        self._batch_of = {game: batch for game, batch in self._batch_of.items() if batch in batches}
        return batches

    def _line_up(self, batch: Slots, requests: Sequence[Request]) -> None:
        # Give each game its row. The cache can only be kept if every prompt continues its cached tokens.
        continues = all(
            request.game_id in batch.row_of
            and len(fed := batch.fed[request.game_id]) < len(request.prompt_ids)
            and list(request.prompt_ids[: len(fed)]) == fed
            for request in requests
        )
        if batch.cache is None or not continues or not self._within_window(batch, requests):
            batch.cache = None
            batch.fed = {request.game_id: [] for request in requests}
            batch.row_of = dict.fromkeys(batch.fed, 0)
        # Games with the same cached tokens and the same next tokens share a row, as all do at the first turn.
        rows: dict[tuple[int, tuple[int, ...]], int] = {}
        row_of = {}
        for request in requests:
            unread = tuple(request.prompt_ids[len(batch.fed[request.game_id]) :])
            row_of[request.game_id] = rows.setdefault((batch.row_of[request.game_id], unread), len(rows))
        if batch.cache is not None:
            batch.cache.keep(torch.tensor([row for row, _ in rows], device=batch.cache.mask.device))
        batch.row_of, batch.unread = row_of, [list(unread) for _, unread in rows]

    def _within_window(self, batch: Slots, requests: Sequence[Request]) -> bool:
        if self._window is None:
            return True
        fed = max(len(batch.fed[request.game_id]) for request in requests)
        unread = max(len(request.prompt_ids) - len(batch.fed[request.game_id]) for request in requests)
        return fed + unread + self._max_completion_tokens <= self._window

    def _joined(self, present: Mapping[Slots, list[Request]]) -> Iterator[tuple[Slots, list[Request]]]:
        # Merge neighbours as games end, so that forward passes stay large.
        waiting: tuple[Slots, list[Request]] | None = None
        for batch, requests in present.items():
            if waiting is not None:
                first, asking = waiting
                same_phase = (first.cache is None) == (batch.cache is None)  # prefill or decode
                if same_phase and self._fit_together(first, batch):
                    first.absorb(batch)
                    self._batch_of.update(dict.fromkeys(batch.row_of, first))
                    asking += requests
                    continue
                yield waiting
            waiting = batch, requests
        if waiting is not None:
            yield waiting

    def _fit_together(self, a: Slots, b: Slots) -> bool:
        if self._window is not None and a.cache is not None and b.cache is not None:
            width = max(len(batch.cache.mask[0]) for batch in (a, b) if batch.cache is not None)
            unread = max(len(ids) for batch in (a, b) for ids in batch.unread)
            if width + unread + self._max_completion_tokens > self._window:  # a window counts holes, too
                return False
        # Games that share a row can split before the turn ends, so leave half of the rows free for that.
        num_games, num_rows = len(a.row_of) + len(b.row_of), len(a.unread) + len(b.unread)
        share_rows = a.cache is not None and 2 * num_rows <= self.size
        return num_games <= self.size or (share_rows and num_games <= self._max_games)
