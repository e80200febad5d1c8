"""Batches of games in play: which games share a cache, and which share a row of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch

from wordle_rl.policy.base import Request
from wordle_rl.policy.kv_cache import GameCache, joined


class Batch:
    """Games that share a cache. Games with the same tokens so far share a row of it."""

    def __init__(self) -> None:
        self.cache: GameCache | None = None
        self.row_of: dict[int, int] = {}
        self.fed: dict[int, list[int]] = {}  # the token ids of each game in the cache
        self.unread: list[list[int]] = []  # the token ids that each row reads next

    def absorb(self, other: Batch) -> None:
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
        self._batch_of: dict[int, Batch] = {}

    def __len__(self) -> int:
        return len(set(self._batch_of.values()))

    def clear(self) -> None:
        """Drop every game and its cache."""
        self._batch_of.clear()

    def arrange(self, requests: Sequence[Request]) -> dict[Batch, list[Request]]:
        """Return the batches to sample this turn, with their requests; batches without a request are dropped."""
        new = [request.game_id for request in requests if request.game_id not in self._batch_of]
        for start in range(0, len(new), self.size):
            self._batch_of.update(dict.fromkeys(new[start : start + self.size], Batch()))
        present: dict[Batch, list[Request]] = {}
        for request in requests:
            present.setdefault(self._batch_of[request.game_id], []).append(request)
        for batch, asking in present.items():
            self._line_up(batch, asking)
        batches = dict(self._joined(present))
        self._batch_of = {game: batch for game, batch in self._batch_of.items() if batch in batches}
        return batches

    def _line_up(self, batch: Batch, requests: Sequence[Request]) -> None:
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

    def _within_window(self, batch: Batch, requests: Sequence[Request]) -> bool:
        if self._window is None:
            return True
        fed = max(len(batch.fed[request.game_id]) for request in requests)
        unread = max(len(request.prompt_ids) - len(batch.fed[request.game_id]) for request in requests)
        return fed + unread + self._max_completion_tokens <= self._window

    def _joined(self, present: Mapping[Batch, list[Request]]) -> Iterator[tuple[Batch, list[Request]]]:
        # Merge neighbours as games end, so that forward passes stay large.
        waiting: tuple[Batch, list[Request]] | None = None
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

    def _fit_together(self, a: Batch, b: Batch) -> bool:
        if self._window is not None and a.cache is not None and b.cache is not None:
            width = max(len(batch.cache.mask[0]) for batch in (a, b) if batch.cache is not None)
            unread = max(len(ids) for batch in (a, b) for ids in batch.unread)
            if width + unread + self._max_completion_tokens > self._window:  # a window counts holes, too
                return False
        # Games that share a row can split before the turn ends, so leave half of the rows free for that.
        num_games, num_rows = len(a.row_of) + len(b.row_of), len(a.unread) + len(b.unread)
        share_rows = a.cache is not None and 2 * num_rows <= self.size
        return num_games <= self.size or (share_rows and num_games <= self._max_games)
