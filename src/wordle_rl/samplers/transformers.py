"""Sampling from a transformers model with a key/value cache kept across the turns of a game.

A turn costs one forward pass over the words that came back and one per new token; nothing is read twice.
Works for every causal model of transformers whose layers attend to keys and values, since it only uses
`attention_mask`, `position_ids` and a cache. A sliding window counts cached tokens, holes included; once a batch may
outgrow the window, it is therefore read afresh each turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from wordle_rl.chat import ChatCodec
from wordle_rl.config import EngineName, SamplingSettings
from wordle_rl.samplers.attention import grouped
from wordle_rl.samplers.base import Completion, Request
from wordle_rl.samplers.constrain import State, WordConstraint
from wordle_rl.samplers.drawing import draw, limited
from wordle_rl.samplers.kv_cache import GameCache, joined

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

_KNOWN_LAYERS = {"full_attention", "sliding_attention"}
_CPU_BATCH = 256
"""Rows at once on a CPU: enough for its matrix products to run at full speed, few enough for its caches."""
_WORTH_A_PASS = 256
"""Tokens that reading a shared beginning first must save."""


class _Batch:
    """The games that share one cache."""

    def __init__(self) -> None:
        self.cache: GameCache | None = None
        self.row_of: dict[int, int] = {}
        self.fed: dict[int, list[int]] = {}  # the token ids of each game that the cache holds
        self.unread: list[list[int]] = []  # what each row reads next

    def can_absorb(self, other: _Batch) -> bool:
        """Whether both are to be read from the start, or both go on."""
        return (self.cache is None) == (other.cache is None)

    def absorb(self, other: _Batch) -> None:
        """Add the games of another batch as further rows."""
        first = len(self.unread)
        if self.cache is not None and other.cache is not None:
            self.cache = joined(self.cache, other.cache)
        self.row_of |= {game: first + row for game, row in other.row_of.items()}
        self.fed |= other.fed
        self.unread += other.unread


class _Said(NamedTuple):
    """The tokens of each game's reply, their log-probabilities, and the game's row in the cache."""

    ids: list[list[int]]
    logprobs: list[list[float]]
    rows: list[int]


class TransformersSampler:
    """Samples replies from a model in this process.

    Args:
        model: Any causal language model; it is put into evaluation mode while it samples.
        codec: Its tokenizer and chat template.
        settings: How tokens are drawn.
        seed: Seed of the sampler's own random stream, which runs on over all games.
        constraint: Limits guesses to listed words, see `make_constraint`; None: any token may follow.

    Raises:
        ValueError: If the model has layers that remember otherwise than by keys and values.
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
        self.codec: ChatCodec | None = codec
        self._codec = codec
        self.model = model
        self.settings = settings or SamplingSettings()
        self._constraint = constraint
        self._generator = torch.Generator(device=model.device).manual_seed(seed)
        self._batch_of: dict[int, _Batch] = {}
        on_cpu = model.device.type == "cpu"
        self._batch_size = min(self.settings.max_batch_size, _CPU_BATCH) if on_cpu else self.settings.max_batch_size
        text_config = model.config.get_text_config()
        # The last layers of some models read the keys and values of earlier ones and have none of their own.
        self._num_layers = text_config.num_hidden_layers - getattr(text_config, "num_kv_shared_layers", 0)
        self._window = _sliding_window(text_config)

    def begin(self) -> None:
        """Drop every cached game."""
        self._batch_of.clear()

    @torch.no_grad()
    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """Sample one reply per request; games seen before go on from their cache."""
        self._place(requests)
        present: dict[_Batch, list[Request]] = {}
        for request in requests:
            present.setdefault(self._batch_of[request.game_id], []).append(request)
        completions: dict[int, Completion] = {}
        with _sampling(self.model):
            for batch, speaking in present.items():
                self._line_up(batch, speaking)
            batches = dict(self._joined(present))
            for batch, speaking in batches.items():
                completions.update(self._sample_batch(batch, speaking))
        # A batch all of whose games are over goes, and its cache with it.
        self._batch_of = {game: batch for game, batch in self._batch_of.items() if batch in batches}
        return [completions[request.game_id] for request in requests]

    def _place(self, requests: Sequence[Request]) -> None:
        """Give every new game a batch with room."""
        new = [request.game_id for request in requests if request.game_id not in self._batch_of]
        for start in range(0, len(new), self._batch_size):
            batch = _Batch()
            self._batch_of.update(dict.fromkeys(new[start : start + self._batch_size], batch))

    def _line_up(self, batch: _Batch, requests: Sequence[Request]) -> None:
        """Give every game its row: games that read the same so far, and read the same next, share one.

        The cache is dropped where prompts do not go on from it.
        """
        goes_on = all(
            request.game_id in batch.row_of
            and len(fed := batch.fed[request.game_id]) < len(request.prompt_ids)
            and list(request.prompt_ids[: len(fed)]) == fed
            for request in requests
        )
        if batch.cache is None or not goes_on or not self._within_window(batch, requests):
            batch.cache = None
            batch.fed = {request.game_id: [] for request in requests}
            batch.row_of = dict.fromkeys(batch.fed, 0)
        rows: dict[tuple[int, tuple[int, ...]], int] = {}
        row_of = {}
        for request in requests:
            unread = tuple(request.prompt_ids[len(batch.fed[request.game_id]) :])
            row_of[request.game_id] = rows.setdefault((batch.row_of[request.game_id], unread), len(rows))
        if batch.cache is not None:
            batch.cache.keep(torch.tensor([row for row, _ in rows], device=self.model.device))
        batch.row_of, batch.unread = row_of, [list(unread) for _, unread in rows]

    def _joined(self, present: Mapping[_Batch, list[Request]]) -> Iterator[tuple[_Batch, list[Request]]]:
        """Batches that fit into one become one: few games are left, or many of them went alike."""
        waiting: tuple[_Batch, list[Request]] | None = None
        for batch, requests in present.items():
            if waiting is not None:
                first, speaking = waiting
                if first.can_absorb(batch) and self._fit(first, batch):
                    first.absorb(batch)
                    self._batch_of.update(dict.fromkeys(batch.row_of, first))
                    speaking += requests
                    continue
                yield waiting
            waiting = batch, requests
        if waiting is not None:
            yield waiting

    def _fit(self, a: _Batch, b: _Batch) -> bool:
        """Whether two batches make one of a good size: so many games, or half as many rows, since games that have gone
        alike so far may part over the turn."""
        if self._window is not None and a.cache is not None and b.cache is not None:
            width = max(len(batch.cache.mask[0]) for batch in (a, b) if batch.cache is not None)
            unread = max(len(ids) for batch in (a, b) for ids in batch.unread)
            if width + unread + self.settings.max_completion_tokens > self._window:  # holes count
                return False
        num_games, num_rows = len(a.row_of) + len(b.row_of), len(a.unread) + len(b.unread)
        went_alike = a.cache is not None and 2 * num_rows <= self._batch_size
        return num_games <= self._batch_size or (went_alike and num_games <= self.settings.max_batch_size)

    def _sample_batch(self, batch: _Batch, requests: Sequence[Request]) -> dict[int, Completion]:
        if batch.cache is None:
            batch.cache, logits = self._open(batch.unread)
        else:
            logits = self._read(batch.cache, batch.unread)
        rows = torch.tensor([batch.row_of[request.game_id] for request in requests], device=logits.device)
        states = [None if self._constraint is None else self._constraint.start] * len(requests)
        said = self._speak(batch.cache, logits, rows, states, self.settings.max_completion_tokens)
        batch.row_of = {request.game_id: row for request, row in zip(requests, said.rows, strict=True)}
        completions = {}
        for request, ids, logprobs in zip(requests, said.ids, said.logprobs, strict=True):
            # The last sampled token was never fed back, so the cache ends one token before it.
            batch.fed[request.game_id] = [*request.prompt_ids, *ids[:-1]]
            completions[request.game_id] = Completion(
                text=self._codec.text_of(ids),
                token_ids=tuple(ids),
                sampler_logprobs=tuple(logprobs),
                overlong=ids[-1] not in self._codec.stop_ids,
            )
        return completions

    def _within_window(self, batch: _Batch, requests: Sequence[Request]) -> bool:
        """Whether the cache stays inside the model's sliding window over the coming turn, holes and all."""
        if self._window is None:
            return True
        fed = max(len(batch.fed[request.game_id]) for request in requests)
        unread = max(len(request.prompt_ids) - len(batch.fed[request.game_id]) for request in requests)
        return fed + unread + self.settings.max_completion_tokens <= self._window

    def _open(self, prompts: list[list[int]]) -> tuple[GameCache, Tensor]:
        """Read whole prompts, all different, into a new cache; a long beginning that all share is read once."""
        device = self.model.device
        shared = min(_same_start(min(prompts), max(prompts)), min(map(len, prompts)) - 1)
        longest = max(map(len, prompts)) + self.settings.max_completion_tokens
        if shared * (len(prompts) - 1) < _WORTH_A_PASS or (self._window is not None and longest > self._window):
            shared = 0
        cache = GameCache(self._num_layers, 1 if shared else len(prompts), device)
        if shared:
            self._read(cache, [prompts[0][:shared]])
            cache.keep(torch.zeros(len(prompts), dtype=torch.long, device=device))
        return cache, self._read(cache, [prompt[shared:] for prompt in prompts])

    def _read(self, cache: GameCache, unread: list[list[int]]) -> Tensor:
        """Read each row's tokens; the logits after its last one, shape (rows, vocabulary)."""
        device = self.model.device
        width = max(len(ids) for ids in unread)
        tokens = torch.tensor([[self._codec.pad_id] * (width - len(ids)) + ids for ids in unread], device=device)
        alive = torch.tensor([[0] * (width - len(ids)) + [1] * len(ids) for ids in unread], device=device)
        return self._forward(cache, tokens, alive)

    def _forward(self, cache: GameCache, tokens: Tensor, alive: Tensor) -> Tensor:
        mask, positions = cache.append_mask(alive)
        output = self.model(
            input_ids=tokens,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache.cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits: Tensor = output.logits[:, -1]
        return logits.float()

    def _speak(
        self, cache: GameCache, logits: Tensor, rows: Tensor, states: Sequence[State | None], max_tokens: int
    ) -> _Said:
        """Sample from the first logits on, until every game has closed its turn or said `max_tokens`.

        Games share a row of the cache until they say different things. Once half of the rows are done, the others go
        on in a cache of their own, and what it has read comes back.

        Args:
            cache: What was read so far.
            logits: For the next token of each row, shape (rows, vocabulary).
            rows: The row of each game, shape (games,).
            states: Where each game's reply is in its grammar.
            max_tokens: What is left to say.
        """
        stops = torch.tensor(sorted(self._codec.stop_ids), device=logits.device)
        running = torch.ones(len(rows), dtype=torch.bool, device=logits.device)
        lengths = torch.zeros(len(rows), dtype=torch.long, device=logits.device)
        sampled: list[Tensor] = []
        scores: list[Tensor] = []
        rest: tuple[list[int], _Said] | None = None
        for said in range(1, max_tokens + 1):
            chosen, chosen_logprobs = self._choose(logits[rows], states, running)
            sampled.append(chosen)
            scores.append(chosen_logprobs)
            lengths += running
            running = running & ~torch.isin(chosen, stops)
            if said == max_tokens or not running.any():
                break
            if self._constraint is not None:
                states = [self._constraint.after(*pair) for pair in zip(states, chosen.tolist(), strict=True)]
            rows, tokens, alive = self._branch(cache, rows, chosen, running)
            going = running.nonzero()[:, 0]
            if len(going) == int(alive.sum()) and 2 * len(going) <= len(alive):  # half are done, no row is shared
                part = cache.part(rows[going])
                part_logits = self._forward(part, chosen[going, None], torch.ones_like(going)[:, None])
                games = going.tolist()
                own_rows = torch.arange(len(games), device=going.device)
                rest = games, self._speak(part, part_logits, own_rows, [states[g] for g in games], max_tokens - said)
                cache.take_back(part, rows[going])
                break
            logits = self._forward(cache, tokens, alive)
        ends = lengths.tolist()
        ids = [row[:end] for row, end in zip(torch.stack(sampled, 1).tolist(), ends, strict=True)]
        logprobs = [row[:end] for row, end in zip(torch.stack(scores, 1).tolist(), ends, strict=True)]
        if rest is not None:
            for game, more_ids, more_logprobs in zip(rest[0], rest[1].ids, rest[1].logprobs, strict=True):
                ids[game] += more_ids
                logprobs[game] += more_logprobs
        return _Said(ids, logprobs, rows.tolist())

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
        tokens = torch.full_like(alive, self._codec.pad_id)
        alive[row_of, 0] = (choice_of < beyond).long()
        tokens[row_of, 0] = choice_of.where(choice_of < beyond, self._codec.pad_id)
        return row_of[branch_of], tokens, alive

    def _choose(self, logits: Tensor, states: Sequence[State | None], running: Tensor) -> tuple[Tensor, Tensor]:
        if self._constraint is not None:
            logits = limited(logits, self._constraint, states, running)
        return draw(logits, self.settings, self._generator)


def _same_start(a: Sequence[int], b: Sequence[int]) -> int:
    """How many tokens two prompts have in common at their start."""
    return next((place for place, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


@contextmanager
def without_autocast(model: PreTrainedModel) -> Iterator[None]:
    """The model without the autocast that accelerate has put around its `forward` for training, if it has."""
    own, wrapped = vars(model).get("_original_forward"), model.forward
    if own is None:
        yield
        return
    model.forward = own
    try:
        yield
    finally:
        model.forward = wrapped


@contextmanager
def _sampling(model: PreTrainedModel) -> Iterator[None]:
    """The model as it samples: in evaluation mode, grouped heads unfolded; left as it came.

    On a CPU also without autocast, which makes the small products of one token a row slower.
    """
    was_training = model.training
    model.eval()
    try:
        with grouped(model), without_autocast(model) if model.device.type == "cpu" else nullcontext():
            yield
    finally:
        model.train(was_training)


def _sliding_window(text_config: PreTrainedConfig) -> int | None:
    """The width of the model's sliding window in tokens, None if every layer sees everything."""
    layer_types = getattr(text_config, "layer_types", None)
    if unknown := set(layer_types or ()) - _KNOWN_LAYERS:
        raise ValueError(f"a model with {', '.join(sorted(unknown))} layers cannot be sampled here; use vLLM instead")
    if layer_types is not None and "sliding_attention" not in layer_types:
        return None
    return getattr(text_config, "sliding_window", None)
