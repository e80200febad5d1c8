"""Replies whose guess can only be a listed word, for any tokenizer.

Once a reply has opened its guess, only those tokens may follow that spell a listed word, close the guess and end the
turn; the text before it stays free. A token may hold several letters, a tag together with letters, or
part of a tag, and a word may be cut into tokens in any way. So a reply is followed character by character, and the
tokens that may follow are found by walking two tries at once: one over the words, one over the texts of the tokens.
In the spelled style, `c r a n e`, a reply is inside its guess from its first character on.

    <think>maybe a</think><gue  ss>cr  ane  </guess>  <end>
    free ...................... limited ...................
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import ConfigError
from wordle_rl.prompt import THINK_TAGS, Prompter
from wordle_rl.words import WordList

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_MAX_SPACES = 2
"""White space that may stand in a row around the word and after the guess; the grammar of replies skips it."""
_END = ""
"""The key under which a trie keeps what ends at a node."""

TokenIds = npt.NDArray[np.int64]


class Phase(Enum):
    """Position of a reply in its grammar."""

    TALKING = auto()
    THINKING = auto()
    BEFORE_WORD = auto()
    IN_WORD = auto()
    AFTER_WORD = auto()
    CLOSING = auto()
    CLOSED = auto()


class State(NamedTuple):
    """A phase, and the text in it that still matters: an unfinished tag, the letters so far, or white space."""

    phase: Phase
    text: str = ""


START = State(Phase.TALKING)


class WordConstraint:
    """Tokens that may follow in a reply.

    Args:
        words: The listed words, in lower case.
        tags: What opens and what closes a guess; both empty: the reply is the guess, a space between its letters.
        texts: The text of each token, by its id.
        stop_ids: The tokens that end a turn.
        opened: The beginning of a reply that its prompt already holds, such as an opened thought.

    `start` is the state in which a reply begins.

    Raises:
        ConfigError: If the tokens cannot spell any of the words.
    """

    def __init__(
        self,
        words: Iterable[str],
        tags: tuple[str, str],
        texts: Sequence[str],
        stop_ids: Iterable[int],
        opened: str = "",
    ) -> None:
        self._open, self._close = tags
        self._words = frozenset(words if self._open else map(" ".join, words))
        self._prefixes = frozenset(word[:length] for word in self._words for length in range(len(word) + 1))
        self._texts = texts
        self._stops = np.array(sorted(stop_ids), dtype=np.int64)
        spelling = _Alphabet(self._words, self._close)
        self._tokens = _trie((text, i) for i, text in enumerate(texts) if text and spelling.may_hold(text))
        self._openers = [i for i, text in enumerate(texts) if self._open and self._open[-1] in text]
        self._allowed: dict[State | None, TokenIds | None] = {}
        self._opening: dict[tuple[State, str], TokenIds] = {}
        self._can_end: dict[State, bool] = {}
        self.start = self._follow(START if self._open else State(Phase.BEFORE_WORD), opened)
        if not self._ends(State(Phase.BEFORE_WORD)):
            raise ConfigError(
                'constrain "words" cannot work: the tokenizer has no tokens that spell a listed word and end the guess'
            )

    def limit(self, state: State | None, logits: Any) -> Any:
        """Forbid in place what may not follow a state of the reply.

        Args:
            state: Where the reply is; None: astray.
            logits: A NumPy array or a torch tensor, shape (vocabulary,).

        Returns:
            The same array, minus infinity at tokens that may not follow.
        """
        allowed = self.allowed(state)
        if allowed is not None:
            kept = logits[allowed]
            logits[:] = -np.inf
            logits[allowed] = kept
        return logits

    def after(self, state: State | None, token: int) -> State | None:
        """The state after a token; None if the reply can no longer be a guess of a listed word."""
        return None if state is None else self._follow(state, self._texts[token] if token < len(self._texts) else "")

    def allowed(self, state: State | None) -> TokenIds | None:
        """The tokens that may follow, ascending; None: all of them.

        Where a reply can no longer be a guess, only the tokens that end it.
        """
        if state not in self._allowed:
            self._allowed[state] = self._find_allowed(state)
        return self._allowed[state]

    def opening(self, state: State, tag: str) -> TokenIds:
        """The tokens that open a guess from a state before it, ascending; some spell the beginning of a word, too.

        Args:
            state: Where the reply is.
            tag: What is missing of the tag, and of the text before it, see `tag_in`.
        """
        if (state, tag) not in self._opening and self.is_inside(state):  # a spelled guess, which nothing opens
            self._opening[state, tag] = self._inside(state)
        if (state, tag) not in self._opening:
            said = [(token, self._texts[token]) for token in self._openers if self._texts[token].startswith(tag)]
            found = [
                token for token, text in said if (end := self._follow(state, text)) is not None and self._ends(end)
            ]
            self._opening[state, tag] = np.array(found, dtype=np.int64)
        return self._opening[state, tag]

    def tag_in(self, state: State, token: int) -> str:
        """The text of a token that opens the guess, up to the end of the tag; '' if nothing opens it."""
        if self.is_inside(state):
            return ""
        here: State | None = state
        for place, char in enumerate(text := self._texts[token], start=1):
            here = self._step(here, char) if here is not None else None
            if here is not None and self.is_inside(here):
                return text[:place]
        return text

    @staticmethod
    def is_inside(state: State) -> bool:
        """True from the end of the tag that opens the guess on."""
        return state.phase not in (Phase.TALKING, Phase.THINKING)

    def _find_allowed(self, state: State | None) -> TokenIds | None:
        if state is None:
            return self._stops
        if not self.is_inside(state):
            astray = [i for i in self._openers if not self._may_say(state, self._texts[i])]
            return np.delete(np.arange(len(self._texts)), astray) if astray else None
        return self._inside(state)

    def _inside(self, state: State) -> TokenIds:
        """The tokens that may follow a state inside the guess, ascending."""
        found = [token for token, end in self._spelling(state) if self._ends(end)]
        return np.union1d(found, self._stops if state.phase is Phase.CLOSED else []).astype(np.int64)

    def _may_say(self, state: State, text: str) -> bool:
        end = self._follow(state, text)
        return end is not None and (not self.is_inside(end) or self._ends(end))

    def _spelling(self, state: State) -> Iterable[tuple[int, State]]:
        """Every token that continues a state inside the guess, and where it leads."""
        paths: list[tuple[State, dict[str, Any]]] = [(state, self._tokens)]
        while paths:
            here, node = paths.pop()
            for char, below in node.items():
                if char == _END:
                    yield from ((token, here) for token in below)
                elif (then := self._step(here, char)) is not None:
                    paths.append((then, below))

    def _ends(self, state: State) -> bool:
        """True if tokens lead from a state inside the guess to the end of the turn. Every path is finite."""
        if state.phase is Phase.CLOSED:
            return True
        if state not in self._can_end:
            self._can_end[state] = any(self._ends(then) for _, then in self._spelling(state))
        return self._can_end[state]

    def _follow(self, state: State, text: str) -> State | None:
        """Read some text from a state on."""
        here: State | None = state
        for char in text:
            if here is None:
                return None
            here = self._step(here, char)
        return here

    def _step(self, state: State, char: str) -> State | None:
        """Read one character."""
        phase, text = state
        if phase in (Phase.TALKING, Phase.THINKING):
            return self._talk(phase, text + char)
        if char.isspace():
            return self._space(phase, text, char)
        if phase in (Phase.BEFORE_WORD, Phase.IN_WORD) and char.isascii() and char.isalpha():
            word = (text if phase is Phase.IN_WORD else "") + char.lower()
            if not self._close and word in self._words:
                return State(Phase.CLOSED)
            return State(Phase.IN_WORD, word) if word in self._prefixes else None
        if phase is Phase.AFTER_WORD or (phase is Phase.IN_WORD and text in self._words):
            return self._shut(char)
        return self._shut(text + char) if phase is Phase.CLOSING else None

    def _talk(self, phase: Phase, text: str) -> State:
        tags = {THINK_TAGS[1]: Phase.TALKING}
        if phase is Phase.TALKING:
            tags = {THINK_TAGS[0]: Phase.THINKING, self._open: Phase.BEFORE_WORD}
        for tag, then in tags.items():
            if text.endswith(tag):
                return State(then)
        starts = (text[i:] for i in range(len(text)) if any(tag.startswith(text[i:]) for tag in tags))
        return State(phase, next(starts, ""))

    def _space(self, phase: Phase, text: str, char: str) -> State | None:
        if phase is Phase.IN_WORD and not self._close:
            return State(phase, text + char) if text + char in self._prefixes else None
        if phase is Phase.IN_WORD and text in self._words:
            return State(Phase.AFTER_WORD, " ")
        if phase in (Phase.BEFORE_WORD, Phase.AFTER_WORD, Phase.CLOSED) and len(text) < _MAX_SPACES:
            return State(phase, text + " ")
        return None

    def _shut(self, tag: str) -> State | None:
        if tag == self._close:
            return State(Phase.CLOSED)
        return State(Phase.CLOSING, tag) if self._close.startswith(tag) else None


class ReplyProcessor:
    """A logits processor of one reply, `(token_ids, logits) -> logits`, as vLLM and other engines take one.

    It is called with the ids of the reply so far, more each time, and the logits of the next token; it keeps its place
    in the grammar, so that no token is read twice.
    """

    def __init__(self, constraint: WordConstraint) -> None:
        self._constraint = constraint
        self._state: State | None = constraint.start
        self._num_read = 0

    def __call__(self, token_ids: Sequence[int], logits: Any) -> Any:
        """Forbid in place what may not follow; logits as in `WordConstraint.limit`."""
        for token in token_ids[self._num_read :]:
            self._state = self._constraint.after(self._state, token)
        self._num_read = len(token_ids)
        return self._constraint.limit(self._state, logits)


class _Alphabet:
    """The characters and letter sequences of tokens inside a guess; other tokens stay out of the trie."""

    def __init__(self, words: Iterable[str], close: str) -> None:
        spelt = [*words, "".join(char for char in close if char.isalpha())]
        self._pieces = {text[i:j] for text in spelt for i in range(len(text)) for j in range(i + 1, len(text) + 1)}
        self._signs = {char for char in close if not char.isalpha()}

    def may_hold(self, text: str) -> bool:
        """True if a text could stand inside a guess; sometimes true for one that cannot."""
        if any(not (char in self._signs or char.isspace() or (char.isascii() and char.isalpha())) for char in text):
            return False
        letters = text.strip().lower()
        return not letters.isalpha() or letters in self._pieces


def make_constraint(words: WordList, prompter: Prompter, codec: ChatCodec) -> WordConstraint:
    """Limit guesses to the listed words.

    Raises:
        ConfigError: If the tokenizer cannot spell any listed word.
    """
    texts = token_texts(codec.tokenizer)
    return WordConstraint(words.guesses, prompter.guess_tags, texts, codec.stop_ids, codec.frame.opened)


def token_texts(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """The text that each token adds in the middle of a reply, by its id.

    A token is decoded behind another one, since decoders treat the first token of a text in ways of their own; half a
    character of several bytes reads as a replacement character.
    """
    anchor = tokenizer("a", add_special_tokens=False)["input_ids"][-1:]
    before = tokenizer.decode(anchor, skip_special_tokens=False)
    pairs = tokenizer.batch_decode([[*anchor, i] for i in range(len(tokenizer))], skip_special_tokens=False)
    return [str(pair).removeprefix(str(before)) for pair in pairs]


def _trie(texts: Iterable[tuple[str, int]]) -> dict[str, Any]:
    """Nested dicts over characters; under `_END` the ids that end there."""
    root: dict[str, Any] = {}
    for text, token in texts:
        node = root
        for char in text:
            node = node.setdefault(char, {})
        node.setdefault(_END, []).append(token)
    return root
