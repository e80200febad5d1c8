"""Beam search for the likeliest listed word in a greedy reply.

Constraining a greedy reply token by token can lead it astray: the likeliest first letters may begin no word that the
model would name, and the rest must follow them. Beam search follows several beginnings of listed words at once and
takes the word whose tokens are likeliest together:

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

from wordle_rl.policy.constrain import State, TokenIds, WordConstraint
from wordle_rl.policy.generate import RereadCache, left_padded
from wordle_rl.policy.kv_cache import GameCache, next_logits, search_cache

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Opening(NamedTuple):
    """The place in a reply before the token that opens the guess.

    Attributes:
        token_ids: Prompt and reply up to that place.
        state: State of the reply there.
        tag: What the opening token adds to the tag; letters of the word can follow in the same token.
        num_reply_tokens: How many of `token_ids` belong to the reply.
    """

    token_ids: tuple[int, ...]
    state: State
    tag: str
    num_reply_tokens: int


class Ending(NamedTuple):
    """The tokens from the opening of the guess to the end of the turn, and the log-probability of each."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]


class _Beginning(NamedTuple):
    score: float
    row: int
    state: State
    ending: Ending
    is_whole: bool = False


def opening_of(prompt_ids: Sequence[int], reply_ids: Sequence[int], constraint: WordConstraint) -> Opening | None:
    """Find the place where a reply opens its guess; None if it opens none."""
    state: State | None = constraint.start
    for place, token in enumerate(reply_ids):
        before, state = state, constraint.after(state, token)
        if before is None or state is None:
            return None
        if constraint.is_inside(state):
            return Opening((*prompt_ids, *reply_ids[:place]), before, constraint.tag_in(before, token), place)
    return None


class WordSearch:
    """Search for the likeliest listed words of a model.

    Args:
        model: The model; it must be in inference mode during a search.
        constraint: The words, and how tokens spell them.
        stop_ids: Tokens that end a turn.
        pad_id: Token id of the padding.
        beam: Width of the beam. If it is the number of all beginnings, the search is exact.
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
        """Return the likeliest ending of each reply with a listed word; None if none is short enough.

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
            # Log-probabilities only fall as a beginning grows. So once a complete guess leads its beam, it has won.
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
        padded = left_padded(unread, self._pad_id, self._model.device)
        return next_logits(self._model, cache, *padded).log_softmax(-1).cpu()  # (rows, vocabulary)

    def _opened(self, opening: Opening, row: int, logprobs: np.ndarray, max_tokens: int) -> list[_Beginning]:
        if opening.num_reply_tokens >= max_tokens:  # no room for a guess
            return []
        start = _Beginning(0.0, row, opening.state, Ending((), ()))
        return [*self._continued(start, self._constraint.opening(opening.state, opening.tag), logprobs)]

    def _grown(self, beam: list[_Beginning], logprobs: Tensor, max_tokens: int) -> list[_Beginning]:
        if not beam or beam[0].is_whole:
            return beam
        grown = [beginning for beginning in beam if beginning.is_whole]
        for beginning in beam:
            if not beginning.is_whole and len(beginning.ending.token_ids) < max_tokens:
                following = self._constraint.allowed(beginning.state)
                assert following is not None  # inside a guess some tokens are always forbidden
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
