"""Constrained decoding: the guess of a reply can only be a listed word, with any tokenizer.

The text before the guess is free. Once the reply opens its guess, only tokens are allowed that spell a listed word,
close the guess and end the turn. A token can hold several letters, a tag with letters, or part of a tag, and a word can
be split into tokens in any way. So the grammar reads characters, and the allowed tokens come from walking two tries at
once: one over words, one over token texts. In the spelled style, `c r a n e`, the whole reply is the guess.

    <think>maybe a</think><gue  ss>cr  ane  </guess>  <end>
    free ...................... limited ...................
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config.base import ConfigError
from wordle_rl.config.evaluation import EngineName
from wordle_rl.prompt import THINK_TAGS, Prompter
from wordle_rl.prompt.reply import TAGS
from wordle_rl.words import WordList

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_MAX_SPACES = 2
"""Most consecutive spaces around the word and after the guess; the parser of replies skips them."""
_END = ""
"""Trie key for the ids that end at a node."""
_ANY_WORD = re.compile(r"[a-z]{0,16}")
_ANY_SPELLED = re.compile(r"[a-z](?: [a-z])* ?")

TokenIds = npt.NDArray[np.int64]


class Phase(Enum):
    """Position of a reply in the grammar."""

    TALKING = auto()
    THINKING = auto()
    BEFORE_WORD = auto()
    IN_WORD = auto()
    AFTER_WORD = auto()
    CLOSING = auto()
    CLOSED = auto()


class State(NamedTuple):
    """A phase and the text in it that still matters: an unfinished tag, the letters so far, or white space."""

    phase: Phase
    text: str = ""


class ReplyGrammar:
    """The grammar of a reply, read character by character; `start` is the state in which a reply begins.

    Args:
        tags: Opening and closing tag of a guess. If both are empty, the reply is the guess, spelled with spaces.
        texts: Text of each token, by id.
        opened: Beginning of the reply that the prompt already holds, such as an opened thought.
        words: The words that a guess can be, in lower case. None: any letters.
    """

    def __init__(
        self, tags: tuple[str, str], texts: Sequence[str], opened: str = "", words: Iterable[str] | None = None
    ) -> None:
        self.open_tag, self._close_tag = tags
        self.texts = texts
        self._is_word: Callable[[str], object]
        self._begins_word: Callable[[str], object]
        if words is None:  # a spelled word of any letters ends with the turn, not by itself
            self._is_word = bool if self.open_tag else lambda _text: False
            self._begins_word = (_ANY_WORD if self.open_tag else _ANY_SPELLED).fullmatch
        else:
            whole = frozenset(words if self.open_tag else map(" ".join, words))
            self._is_word = whole.__contains__
            beginnings = {word[:length] for word in whole for length in range(len(word) + 1)}
            self._begins_word = beginnings.__contains__
        self.start = self.follow(State(Phase.TALKING if self.open_tag else Phase.BEFORE_WORD), opened)

    def after(self, state: State | None, token: int) -> State | None:
        """Return the state after a token; None if the reply can no longer be a guess."""
        return None if state is None else self.follow(state, self.texts[token] if token < len(self.texts) else "")

    def follow(self, state: State | None, text: str) -> State | None:
        """Return the state after a text."""
        for char in text:
            if state is None:
                return None
            state = self.step(state, char)
        return state

    def step(self, state: State, char: str) -> State | None:
        """Return the state after a character."""
        phase, text = state
        if phase in (Phase.TALKING, Phase.THINKING):
            # Where a tag and a bracket open a guess together, the parser takes white space between them.
            if char.isspace() and text == TAGS[0]:
                return state
            return self._talk(phase, text + char)
        if char.isspace():
            return self._space(phase, text, char)
        if phase in (Phase.BEFORE_WORD, Phase.IN_WORD) and char.isascii() and char.isalpha():
            word = (text if phase is Phase.IN_WORD else "") + char.lower()
            if not self._close_tag and self._is_word(word):
                return State(Phase.CLOSED)
            return State(Phase.IN_WORD, word) if self._begins_word(word) else None
        if phase is Phase.AFTER_WORD or (phase is Phase.IN_WORD and self._is_word(text)):
            return self._shut(char)
        return self._shut(text + char) if phase is Phase.CLOSING else None

    def _talk(self, phase: Phase, text: str) -> State:
        tags = {THINK_TAGS[1]: Phase.TALKING}
        if phase is Phase.TALKING:
            tags = {THINK_TAGS[0]: Phase.THINKING, self.open_tag: Phase.BEFORE_WORD}
        for tag, then in tags.items():
            if text.endswith(tag):
                return State(then)
        # Keep only the longest suffix that could become a tag, so that the number of states stays small.
        starts = (text[i:] for i in range(len(text)) if any(tag.startswith(text[i:]) for tag in tags))
        return State(phase, next(starts, ""))

    def _space(self, phase: Phase, text: str, char: str) -> State | None:
        if phase is Phase.IN_WORD and not self._close_tag:
            return State(phase, text + char) if self._begins_word(text + char) else None
        if phase is Phase.IN_WORD and self._is_word(text):
            return State(Phase.AFTER_WORD, " ")
        if phase in (Phase.BEFORE_WORD, Phase.AFTER_WORD, Phase.CLOSED) and len(text) < _MAX_SPACES:
            return State(phase, text + " ")
        return None

    def _shut(self, tag: str) -> State | None:
        if tag == self._close_tag:
            return State(Phase.CLOSED)
        return State(Phase.CLOSING, tag) if self._close_tag.startswith(tag) else None

    def tag_in(self, state: State, token: int) -> str:
        """Return the text of a token up to the end of the opening tag; '' in the spelled style."""
        if is_inside(state):
            return ""
        here: State | None = state
        for place, char in enumerate(text := self.texts[token], start=1):
            here = self.step(here, char) if here is not None else None
            if here is not None and is_inside(here):
                return text[:place]
        return text


def is_inside(state: State) -> bool:
    """True after the opening tag of the guess."""
    return state.phase not in (Phase.TALKING, Phase.THINKING)


class WordConstraint:
    """The tokens that can follow in a reply whose guess must be one of `words`.

    `stop_ids` are the tokens that end a turn; for the other arguments see `ReplyGrammar`.

    Raises:
        ConfigError: If the tokens cannot spell any of the words.
    """

    def __init__(
        self,
        words: Collection[str],
        tags: tuple[str, str],
        texts: Sequence[str],
        stop_ids: Iterable[int],
        opened: str = "",
    ) -> None:
        self.grammar = ReplyGrammar(tags, texts, opened, words)
        self.start, self.after = self.grammar.start, self.grammar.after
        self._stops = np.array(sorted(stop_ids), dtype=np.int64)
        self._tokens = _trie(texts, _pieces(words if tags[0] else map(" ".join, words), tags[1]))
        self._openers = [i for i, text in enumerate(texts) if tags[0] and tags[0][-1] in text]
        self._allowed: dict[State | None, TokenIds | None] = {}
        self._can_end: dict[State, bool] = {}
        if not self._ends(State(Phase.BEFORE_WORD)):
            raise ConfigError(
                'constrain "words" cannot work: no tokens of this tokenizer spell a listed word and close the guess'
            )

    def allowed(self, state: State | None) -> TokenIds | None:
        """Return the allowed tokens in ascending order; None: all.

        If the reply can no longer be a guess (`state` None), these are the tokens that end the turn.
        """
        if state not in self._allowed:
            self._allowed[state] = self._find_allowed(state)
        return self._allowed[state]

    def opening(self, state: State, tag: str) -> TokenIds:
        """Return the tokens that open a guess from a state before it, in ascending order.

        Their text begins with `tag`, see `ReplyGrammar.tag_in`; some also hold letters of a word.
        """
        if is_inside(state):  # the spelled style has no opening tag
            return self._inside(state)
        texts = self.grammar.texts
        said = [(token, self.grammar.after(state, token)) for token in self._openers if texts[token].startswith(tag)]
        return np.array([token for token, end in said if end is not None and self._ends(end)], dtype=np.int64)

    def _find_allowed(self, state: State | None) -> TokenIds | None:
        if state is None:
            return self._stops
        if is_inside(state):
            return self._inside(state)
        # Before the guess only a token that opens it can be wrong: the letters it adds must begin a word.
        astray = []
        for token in self._openers:
            end = self.grammar.after(state, token)
            if end is None or (is_inside(end) and not self._ends(end)):
                astray.append(token)
        return np.delete(np.arange(len(self.grammar.texts)), astray) if astray else None

    def _inside(self, state: State) -> TokenIds:
        found = [token for token, end in self._spelling(state) if self._ends(end)]
        return np.union1d(found, self._stops if state.phase is Phase.CLOSED else []).astype(np.int64)

    def _spelling(self, state: State) -> Iterable[tuple[int, State]]:
        # Depth-first through the token trie and the grammar at once: each token that fits, with the state after it.
        paths: list[tuple[State, dict[str, Any]]] = [(state, self._tokens)]
        while paths:
            here, node = paths.pop()
            for char, below in node.items():
                if char == _END:
                    yield from ((token, here) for token in below)
                elif (then := self.grammar.step(here, char)) is not None:
                    paths.append((then, below))

    def _ends(self, state: State) -> bool:
        # Can tokens lead from here to the end of the turn? Without this check a reply could get stuck in a word that
        # the tokenizer cannot finish. The recursion ends, because spaces and letters are limited.
        if state.phase is Phase.CLOSED:
            return True
        if state not in self._can_end:
            self._can_end[state] = any(self._ends(then) for _, then in self._spelling(state))
        return self._can_end[state]


MakeConstraint = Callable[[ChatCodec], WordConstraint | None]
"""Returns the limit on a model's guesses for its codec, or None for no limit."""

WORD_BEAM = 16
"""Width of the beam search for the likeliest listed word (`word_search`)."""


def word_beam(engine: EngineName | None, temperature: float | None, *, constrained: bool) -> int | None:
    """Return the width of the beam search for the likeliest listed word; None if a player does not search.

    Only greedy, constrained play by transformers searches. Otherwise the constraint acts one token at a time.
    """
    return WORD_BEAM if constrained and engine == "transformers" and temperature == 0 else None


class ReplyProcessor:
    """A logits processor for one reply, `(token_ids, logits) -> logits`, for vLLM and other engines.

    Each call passes all ids of the reply so far. The processor remembers its state and reads only the new ones.
    """

    def __init__(self, constraint: WordConstraint) -> None:
        self._constraint = constraint
        self._state: State | None = constraint.start
        self._num_read = 0

    def __call__(self, token_ids: Sequence[int], logits: Any) -> Any:
        """Set the logits of forbidden tokens to minus infinity, in place; shape (vocabulary,)."""
        for token in token_ids[self._num_read :]:
            self._state = self._constraint.after(self._state, token)
        self._num_read = len(token_ids)
        allowed = self._constraint.allowed(self._state)
        if allowed is not None:
            kept = logits[allowed]
            logits[:] = -np.inf
            logits[allowed] = kept
        return logits


def make_constraint(words: WordList, prompter: Prompter, codec: ChatCodec) -> WordConstraint:
    """Create the constraint that limits guesses to the listed words."""
    texts = token_texts(codec.tokenizer)
    return WordConstraint(words.guesses, prompter.guess_tags, texts, codec.stop_ids, codec.frame.opened)


def token_texts(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """Return the text that each token adds in the middle of a reply, by id.

    Part of a multi-byte character becomes a replacement character.
    """
    # Decode each token after another one: decoders treat the first token of a text differently.
    anchor = tokenizer("a", add_special_tokens=False)["input_ids"][-1:]
    before = tokenizer.decode(anchor, skip_special_tokens=False)
    pairs = tokenizer.batch_decode([[*anchor, i] for i in range(len(tokenizer))], skip_special_tokens=False)
    return [str(pair).removeprefix(str(before)) for pair in pairs]


def _pieces(words: Iterable[str], close: str) -> Callable[[str], bool]:
    # A cheap filter that keeps most of a large vocabulary out of the trie: it lets some texts through that cannot be
    # part of a guess, but drops none that can.
    spelt = [*words, "".join(char for char in close if char.isalpha())]
    pieces = {text[i:j] for text in spelt for i in range(len(text)) for j in range(i + 1, len(text) + 1)}
    signs = {char for char in close if not char.isalpha()}

    def may_hold(text: str) -> bool:
        if any(not (char in signs or char.isspace() or (char.isascii() and char.isalpha())) for char in text):
            return False
        letters = text.strip().lower()
        return not letters.isalpha() or letters in pieces

    return may_hold


def _trie(texts: Sequence[str], may_hold: Callable[[str], bool]) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for token, text in enumerate(texts):
        if text and may_hold(text):
            node = root
            for char in text:
                node = node.setdefault(char, {})
            node.setdefault(_END, []).append(token)
    return root
