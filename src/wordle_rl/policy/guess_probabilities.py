"""The guesses that a model is likeliest to make, with their probabilities.

The probability of a guess is that of its tokens, given the prompt and the whole reply up to the opening tag, including
the thinking. Different tokenizations of a word add up. A beam search finds guesses, listed or not:

    <think>maybe a</think><guess>  cr  ane  </guess>
    given ......................|  one spelling of "crane"
"""

from __future__ import annotations

import heapq
import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.policy.constrain import token_texts
from wordle_rl.policy.kv_cache import next_logits, search_cache
from wordle_rl.policy.transformers import sampling_mode
from wordle_rl.prompt import THINK_TAGS

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_BEAM = 48
"""Width of the beam."""
_TOKENS_EACH = 64
"""Next tokens to look at for each beginning, the likeliest ones."""
_LEAST = math.log(1e-6)
"""Drop beginnings with a lower log-probability."""
_LEAST_SHARE = 0.05
"""Drop beginnings with less than this fraction of the probability of the last guess that would be returned."""
_MAX_TOKENS = 16
"""Most tokens of a guess with its closing tag."""
_SPELLED = re.compile(r"\s{0,2}([A-Za-z](?: [A-Za-z])*)")
_SPELLED_SO_FAR = re.compile(r"\s{0,2}(?:[A-Za-z](?: [A-Za-z])* ?)?")
_SPELT = re.compile(r"\s{0,2}([A-Za-z]{0,16})(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class LikelyGuess:
    """A guess in lower case, listed or not, and its probability at temperature 1."""

    guess: str
    probability: float


class GuessProbabilities:
    """Finds a model's likeliest guesses.

    Args:
        model: Any causal language model that `TransformersSampler` takes.
        codec: Its tokenizer and chat template.
        tags: The tags around a guess. If both are empty, a reply is a guess with spaces between letters.
    """

    def __init__(self, model: PreTrainedModel, codec: ChatCodec, tags: tuple[str, str]) -> None:
        self.model, self.codec = model, codec
        self._open, self._close = tags
        self._texts = token_texts(codec.tokenizer)

    @torch.no_grad()
    def likeliest(self, prompt_ids: Sequence[int], completion: Sequence[int], count: int = 10) -> list[LikelyGuess]:
        """Return up to `count` guesses at the place where a completion opened its own, most likely first.

        Args:
            prompt_ids: The prompt of the turn.
            completion: The tokens sampled in that turn.
            count: Most guesses to return.

        Returns:
            The guesses; none if the completion opens no guess outside its thinking.
        """
        opening = self._opening(completion)
        if opening is None:
            return []
        read, pending = opening
        with sampling_mode(self.model):
            found = self._search([*prompt_ids, *completion[:read]], pending, count)
        best = heapq.nlargest(count, found.items(), key=lambda item: item[1])
        return [LikelyGuess(guess, probability) for guess, probability in best]

    def _opening(self, completion: Sequence[int]) -> tuple[int, str] | None:
        # The number of tokens before the guess, and the rest of the tag if one token holds both tag and letters.
        text = self.codec.frame.opened
        for place, token in enumerate(completion):
            before, text = text, text + self._text(token)
            end = _end_of_tag(text, self._open)
            if end == len(text):
                return place + 1, ""
            if end is not None:
                return place, text[len(before) : end]
        return None

    def _search(self, read: list[int], pending: str, count: int) -> dict[str, float]:
        device = self.model.device
        cache = search_cache(self.model, 1)
        tokens = torch.tensor([read], device=device)
        logits = next_logits(self.model, cache, tokens, torch.ones_like(tokens))
        found: dict[str, float] = defaultdict(float)
        beams = [(0.0, "")]
        for _ in range(_MAX_TOKENS):
            grown = self._grown(beams, logits, pending, found)
            bound = heapq.nlargest(count, found.values())[-1] if len(found) >= count else 0.0
            kept = [beam for beam in heapq.nlargest(_BEAM, grown) if math.exp(beam[0]) > bound * _LEAST_SHARE]
            if not kept:
                break
            cache.keep(torch.tensor([row for _, row, _, _ in kept], device=device))
            tokens = torch.tensor([[token] for _, _, token, _ in kept], device=device)
            logits = next_logits(self.model, cache, tokens, torch.ones_like(tokens))
            beams = [(score, text) for score, _, _, text in kept]
        return found

    def _grown(
        self, beams: Sequence[tuple[float, str]], logits: Tensor, pending: str, found: dict[str, float]
    ) -> list[tuple[float, int, int, str]]:
        # Extend every beginning by a token: (log-probability, row, token, text). Complete guesses go into `found`.
        scores, tokens = logits.log_softmax(-1).topk(min(_TOKENS_EACH, logits.shape[-1]))  # (rows, tokens each)
        grown = []
        for row, (score, text) in enumerate(beams):
            for more, token in zip(scores[row].tolist(), tokens[row].tolist(), strict=True):
                longer = text + self._text(token)
                if not self._close and token in self.codec.stop_ids and (spelled := _SPELLED.fullmatch(text)):
                    found[spelled[1].replace(" ", "").lower()] += math.exp(score + more)
                if score + more < _LEAST or token in self.codec.stop_ids or longer == text:
                    continue
                word = self._read(longer, pending)
                if word:
                    found[word] += math.exp(score + more)
                elif word is not None:
                    grown.append((score + more, row, token, longer))
        return grown

    def _read(self, text: str, pending: str) -> str | None:
        # The guess, once the text begins to close it; '' if it can still grow; None if it is not a guess.
        if len(text) < len(pending):
            return "" if pending.startswith(text) else None
        if not self._close:
            return "" if _SPELLED_SO_FAR.fullmatch(text) else None
        match = _SPELT.fullmatch(text.removeprefix(pending))
        if not text.startswith(pending) or match is None:
            return None
        word, rest = match[1].lower(), match[2]
        if not rest:
            return ""
        closing = rest.lstrip()
        closes = self._close.startswith(closing) or closing.startswith(self._close)
        return word if word and closes else None

    def _text(self, token: int) -> str:
        return self._texts[token] if token < len(self._texts) else ""


def _end_of_tag(text: str, tag: str) -> int | None:
    # Index after the first tag outside the thinking.
    start = 0
    if (thought := text.find(THINK_TAGS[0])) >= 0 and (text.find(tag) < 0 or thought < text.find(tag)):
        closed = text.find(THINK_TAGS[1], thought)
        if closed < 0:
            return None
        start = closed + len(THINK_TAGS[1])
    found = text.find(tag, start)
    return None if found < 0 else found + len(tag)
