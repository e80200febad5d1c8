"""The likeliest listed word where a greedy reply names its guess, by a beam search.

A greedy reply that is limited token by token may be led astray: its likeliest first letters may begin no listed word
that the model would name, and the rest has to follow them. Here several beginnings of listed words are followed at
once, and the reply becomes the one whose tokens are likeliest together:

    <think>maybe a</think>  <guess>  cr  ane  </guess>  <end>
    as sampled ...........| searched ........................
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from wordle_rl.samplers.constrain import State, TokenIds, WordConstraint
from wordle_rl.samplers.generate import RereadCache
from wordle_rl.samplers.kv_cache import GameCache, next_logits, search_cache

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Opening(NamedTuple):
    """Place in a reply before the token that opens its guess.

    Attributes:
        token_ids: Prompt and reply before the token that opens it.
        state: Where the reply is there.
        tag: What that token adds to the tag; letters of the word may follow in the same token.
        num_reply_tokens: How many of the tokens are the reply's.
    """

    token_ids: tuple[int, ...]
    state: State
    tag: str
    num_reply_tokens: int


class Ending(NamedTuple):
    """Tokens from the one that opens the guess to the end of the turn, and the model's log-probability of each."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]


class _Beginning(NamedTuple):
    score: float
    row: int
    state: State
    ending: Ending
    is_whole: bool = False


def opening_of(prompt_ids: Sequence[int], reply_ids: Sequence[int], constraint: WordConstraint) -> Opening | None:
    """Place at which a reply opens its guess; None: it does not."""
    state: State | None = constraint.start
    for place, token in enumerate(reply_ids):
        before, state = state, constraint.after(state, token)
        if before is None or state is None:
            return None
        if constraint.is_inside(state):
            return Opening((*prompt_ids, *reply_ids[:place]), before, constraint.tag_in(before, token), place)
    return None


class WordSearch:
    """Finds the likeliest listed words of a model.

    Args:
        model: In inference mode while it is asked.
        constraint: The words, and how tokens spell them.
        stop_ids: Tokens that end a turn.
        pad_id: Fills up prompts.
        beam: Beginnings of a guess that are followed at once. With as many as there are beginnings the search is exact.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        constraint: WordConstraint,
        stop_ids: Iterable[int],
        pad_id: int,
        beam: int,
    ) -> None:
        self._model, self._constraint = model, constraint
        self._stops, self._pad_id = frozenset(stop_ids), pad_id
        self._beam = beam

    @torch.no_grad()
    def search(self, openings: Sequence[Opening], max_tokens: int, max_rows: int) -> list[Ending | None]:
        """The likeliest ending of each reply whose guess is a listed word; None: none is short enough.

        Args:
            openings: Where the replies open their guesses; equal ones are searched once.
            max_tokens: Token limit of a whole reply.
            max_rows: Most rows of a forward pass.
        """
        different = list(dict.fromkeys(openings))
        size = max(1, max_rows // self._beam)
        endings: dict[Opening, Ending | None] = {}
        for start in range(0, len(different), size):
            part = different[start : start + size]
            endings.update(zip(part, self._search(part, max_tokens), strict=True))
        return [endings[opening] for opening in openings]

    def _search(self, openings: Sequence[Opening], max_tokens: int) -> list[Ending | None]:
        cache = search_cache(self._model, len(openings))
        logprobs = self._read(cache, [opening.token_ids for opening in openings])
        beams = [self._opened(opening, row, logprobs[row].numpy(), max_tokens) for row, opening in enumerate(openings)]
        while True:
            # What grows on only gets less likely, so a whole guess that comes first is the likeliest.
            unsettled = [beam for beam in beams if beam and not beam[0].is_whole]
            going = [beginning for beam in unsettled for beginning in beam if not beginning.is_whole]
            if not going:
                return [beam[0].ending if beam else None for beam in beams]
            cache.keep(torch.tensor([beginning.row for beginning in going], device=self._model.device))
            logprobs = self._read(cache, [beginning.ending.token_ids[-1:] for beginning in going])
            rows = iter(range(len(going)))
            beams = [
                [one if one.is_whole or beam[0].is_whole else one._replace(row=next(rows)) for one in beam]
                for beam in beams
            ]
            beams = [
                self._grown(beam, logprobs, max_tokens - opening.num_reply_tokens)
                for beam, opening in zip(beams, openings, strict=True)
            ]

    def _read(self, cache: GameCache | RereadCache, unread: Sequence[Sequence[int]]) -> Tensor:
        """Read each row's tokens; log-probabilities of the next one, shape (rows, vocabulary)."""
        width = max(map(len, unread))
        padding = [width - len(ids) for ids in unread]
        tokens = [[self._pad_id] * holes + [*ids] for holes, ids in zip(padding, unread, strict=True)]
        alive = [[0] * holes + [1] * (width - holes) for holes in padding]
        device = self._model.device
        logits = next_logits(
            self._model, cache, torch.tensor(tokens, device=device), torch.tensor(alive, device=device)
        )
        return logits.log_softmax(-1).cpu()

    def _opened(self, opening: Opening, row: int, logprobs: np.ndarray, max_tokens: int) -> list[_Beginning]:
        """The likeliest beginnings of one token; none if the reply has no room for it."""
        if opening.num_reply_tokens >= max_tokens:
            return []
        start = _Beginning(0.0, row, opening.state, Ending((), ()))
        return [*self._continued(start, self._constraint.opening(opening.state, opening.tag), logprobs)]

    def _grown(self, beam: list[_Beginning], logprobs: Tensor, max_tokens: int) -> list[_Beginning]:
        """The likeliest of a token more, and of those that are whole."""
        if not beam or beam[0].is_whole:
            return beam
        grown = [beginning for beginning in beam if beginning.is_whole]
        for beginning in beam:
            if not beginning.is_whole and len(beginning.ending.token_ids) < max_tokens:
                following = self._constraint.allowed(beginning.state)
                assert following is not None  # inside a guess some tokens may not follow
                grown += self._continued(beginning, following, logprobs[beginning.row].numpy())
        return heapq.nlargest(self._beam, grown, key=lambda beginning: beginning.score)

    def _continued(self, beginning: _Beginning, following: TokenIds, logprobs: np.ndarray) -> Iterator[_Beginning]:
        _, row, state, ending, _ = beginning
        scores = logprobs[following]
        for place in np.argsort(-scores, kind="stable")[: self._beam].tolist():
            token, score = int(following[place]), float(scores[place])
            after = self._constraint.after(state, token)
            if after is None and token not in self._stops:
                continue
            longer = Ending((*ending.token_ids, token), (*ending.logprobs, score))
            yield _Beginning(beginning.score + score, row, after or state, longer, token in self._stops)
