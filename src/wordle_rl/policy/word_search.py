"""Beam searches for words: the likeliest listed one in a greedy reply, and a model's likeliest guesses.

Constraining a greedy reply token by token can lead it astray: the likeliest first letters may begin no word that the
model would name, and the rest must follow them. `WordSearch` follows several beginnings of listed words at once and
takes the word whose tokens are likeliest together:

    <think>maybe a</think>  <guess>  cr  ane  </guess>  <end>
    as sampled ...........| searched ........................

`GuessProbabilities` finds guesses, listed or not. The probability of a guess is that of its tokens, given the prompt
and the whole reply up to the opening tag, including the thinking. Different tokenizations of a word add up.

    <think>maybe a</think><guess>  cr  ane  </guess>
    given ......................|  one spelling of "crane"
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.policy.constrain import (
    Phase,
    ReplyGrammar,
    State,
    TokenIds,
    WordConstraint,
    is_inside,
    token_texts,
)
from wordle_rl.policy.kv_cache import GameCache, next_logits, sampling_mode, search_cache
from wordle_rl.policy.uncached import RereadCache, left_padded

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_BEAM = 48
"""Width of the beam of `GuessProbabilities`."""
_TOKENS_EACH = 64
"""Next tokens to look at for each beginning, the likeliest ones."""
_LEAST = math.log(1e-6)
"""Drop beginnings with a lower log-probability."""
_LEAST_SHARE = 0.05
"""Drop beginnings with less than this fraction of the probability of the last guess that would be returned."""
_MAX_TOKENS = 16
"""Most tokens of a guess with its closing tag."""


class Opening(NamedTuple):
    """The place in a reply before the token that opens the guess.

    `token_ids` are prompt and reply up to that place, `num_reply_tokens` of them of the reply, and `state` is the state
    there. `tag` is what the opening token adds to the tag; letters of the word can follow in the same token.
    """

    token_ids: tuple[int, ...]
    state: State
    tag: str
    num_reply_tokens: int


def opening_of(prompt_ids: Sequence[int], reply_ids: Sequence[int], grammar: ReplyGrammar) -> Opening | None:
    """Find the place where a reply opens its guess; None if it opens none."""
    state = grammar.start
    for place, token in enumerate(reply_ids):
        before, state = state, grammar.after(state, token)
        if before is None or state is None:
            return None
        if is_inside(state):
            return Opening((*prompt_ids, *reply_ids[:place]), before, grammar.tag_in(before, token), place)
    return None


def _read(model: PreTrainedModel, cache: GameCache | RereadCache, unread: Sequence[Sequence[int]], pad: int) -> Tensor:
    # The log-probabilities of the next token of each row, shape (rows, vocabulary).
    return next_logits(model, cache, *left_padded(unread, pad, model.device)).log_softmax(-1).cpu()


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


class WordSearch:
    """Search for the likeliest listed words of a model, which must be in inference mode.

    If `beam` is the number of all beginnings, the search is exact.
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

        `max_tokens` limits a whole reply, `max_rows` a forward pass. Equal openings are searched once.
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
        logprobs = _read(self._model, cache, [opening.token_ids for opening in openings], self._pad_id)
        beams = [self._opened(opening, row, logprobs[row].numpy(), max_tokens) for row, opening in enumerate(openings)]
        while True:
            # Log-probabilities only fall as a beginning grows. So once a complete guess leads its beam, it has won.
            unsettled = [beam for beam in beams if beam and not beam[0].is_whole]
            going = [beginning for beam in unsettled for beginning in beam if not beginning.is_whole]
            if not going:
                return [beam[0].ending if beam else None for beam in beams]
            cache.keep(torch.tensor([beginning.row for beginning in going], device=self._model.device))
            last_tokens = [beginning.ending.token_ids[-1:] for beginning in going]
            logprobs = _read(self._model, cache, last_tokens, self._pad_id)
            # Only beginnings that go on have a row now, in the order in which they were read.
            rows = iter(range(len(going)))
            beams = [
                [one if one.is_whole or beam[0].is_whole else one._replace(row=next(rows)) for one in beam]
                for beam in beams
            ]
            beams = [
                self._grown(beam, logprobs, max_tokens - opening.num_reply_tokens)
                for beam, opening in zip(beams, openings, strict=True)
            ]

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


@dataclass(frozen=True, slots=True)
class LikelyGuess:
    """A guess in lower case, listed or not, and its probability at temperature 1."""

    guess: str
    probability: float


class GuessProbabilities:
    """Finds a model's likeliest guesses. `tags` are those around a guess, as for `ReplyGrammar`."""

    def __init__(self, model: PreTrainedModel, codec: ChatCodec, tags: tuple[str, str]) -> None:
        self.model, self.codec = model, codec
        self._is_spelled = not tags[0]
        self._grammar = ReplyGrammar(tags, token_texts(codec.tokenizer), codec.frame.opened)

    @torch.no_grad()
    def likeliest(self, prompt_ids: Sequence[int], completion: Sequence[int], count: int = 10) -> list[LikelyGuess]:
        """Return up to `count` guesses at the place where a completion opened its own, most likely first."""
        opening = opening_of(prompt_ids, completion, self._grammar)
        if opening is None:
            return []
        token = completion[opening.num_reply_tokens]
        if opening.tag == self._grammar.texts[token]:  # nothing but the tag, so it is given, too
            inside = self._grammar.follow(opening.state, opening.tag)
            assert inside is not None
            opening = Opening((*opening.token_ids, token), inside, "", opening.num_reply_tokens + 1)
        with sampling_mode(self.model):
            found = self._search(opening, count)
        best = heapq.nlargest(count, found.items(), key=lambda item: item[1])
        return [LikelyGuess(guess, probability) for guess, probability in best]

    def _search(self, opening: Opening, count: int) -> dict[str, float]:
        cache = search_cache(self.model, 1)
        logprobs = _read(self.model, cache, [opening.token_ids], self.codec.pad_id)
        found: dict[str, float] = defaultdict(float)
        beams, tag = [(0.0, opening.state)], opening.tag
        for _ in range(_MAX_TOKENS):
            grown = self._grown(beams, logprobs, tag, found)
            # A beginning far less likely than the last guess to return cannot grow into a likelier one.
            bound = heapq.nlargest(count, found.values())[-1] if len(found) >= count else 0.0
            kept = [beam for beam in heapq.nlargest(_BEAM, grown) if math.exp(beam[0]) > bound * _LEAST_SHARE]
            if not kept:
                break
            cache.keep(torch.tensor([row for _, row, _, _ in kept], device=self.model.device))
            logprobs = _read(self.model, cache, [[token] for _, _, token, _ in kept], self.codec.pad_id)
            beams, tag = [(score, state) for score, _, _, state in kept], ""
        return found

    def _grown(
        self, beams: Sequence[tuple[float, State]], logprobs: Tensor, tag: str, found: dict[str, float]
    ) -> list[tuple[float, int, int, State]]:
        # Extend every beginning by a token that begins with `tag`: (log-probability, row, token, state). The
        # probabilities of complete guesses go into `found`.
        scores, tokens = logprobs.topk(min(_TOKENS_EACH, logprobs.shape[-1]))  # (rows, tokens each)
        grown = []
        for row, (score, state) in enumerate(beams):
            for more, token in zip(scores[row].tolist(), tokens[row].tolist(), strict=True):
                if token in self.codec.stop_ids:
                    if self._is_spelled and state.phase is Phase.IN_WORD and not state.text.endswith(" "):
                        found[state.text.replace(" ", "")] += math.exp(score + more)
                    continue
                text = self._grammar.texts[token] if token < len(self._grammar.texts) else ""
                if not text or not text.startswith(tag) or score + more < _LEAST:
                    continue
                after, word = self._follow(state, text)
                if word:
                    found[word] += math.exp(score + more)
                elif after is not None:
                    grown.append((score + more, row, token, after))
        return grown

    def _follow(self, state: State, text: str) -> tuple[State | None, str]:
        # The state after a text, and the guess if the text begins to close it.
        word, here = state.text, state
        for char in text:
            after = self._grammar.step(here, char)
            if after is None:
                return None, ""
            word, here = after.text if after.phase is Phase.IN_WORD else word, after
        return here, word if here.phase in (Phase.AFTER_WORD, Phase.CLOSING, Phase.CLOSED) else ""
