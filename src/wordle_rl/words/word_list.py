"""`WordList`: the secrets and the playable words of a game, checked."""

import functools
import hashlib
import reprlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from wordle_rl.errors import UserError

MIN_WORD_LENGTH = 3
"""Letters of the shortest words that a list may hold."""
MAX_WORD_LENGTH = 10
"""Letters of the longest words that a list may hold."""


class WordListError(UserError):
    """A wrong word list, or a wrong request about one; the message is one line with the fix."""


@dataclass(frozen=True, eq=False)
class WordList:
    """The secrets and the playable words of a game. Lists with the same words are equal, whatever their names.

    Attributes:
        name: `default`, the name of a known list, or of the directory it came from.
        answers: Possible secrets, sorted.
        guesses: Playable words, sorted; they include all answers.
        reserved: Answers of the full list that training never names, see `reserving`.
    """

    name: str
    answers: tuple[str, ...] = field(repr=False)
    guesses: tuple[str, ...] = field(repr=False)
    reserved: frozenset[str] = field(default=frozenset(), repr=False)

    def __post_init__(self) -> None:
        for kind in ("answers", "guesses"):
            words = tuple(sorted(getattr(self, kind)))
            object.__setattr__(self, kind, words)
            if not words:
                raise WordListError(f"word list {self.name!r} has no {kind}: give at least one word")
            for previous, word in zip(("", *words), words, strict=False):
                problem = word_problem(word, len(self.answers[0])) or ("appears twice" if word == previous else None)
                if problem or not word.islower():
                    problem = problem or "is not in lower case"
                    raise WordListError(f"word list {self.name!r}, {kind}: {reprlib.repr(word)} {problem}")
        if missing := [word for word in self.answers if word not in self]:
            raise WordListError(f"word list {self.name!r}: add to the guesses the answers {reprlib.repr(missing)}")

    @property
    def word_length(self) -> int:
        """Letters per word, 3 to 10."""
        return len(self.answers[0])

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 hex of the sorted answers, two newlines and the sorted guesses, each joined by newlines."""
        return sha256("\n".join(self.answers) + "\n\n" + "\n".join(self.guesses))

    @functools.cached_property
    def answers_sha256(self) -> str:
        """SHA-256 hex of the sorted answers joined by newlines."""
        return sha256("\n".join(self.answers))

    @functools.cached_property
    def guesses_sha256(self) -> str:
        """SHA-256 hex of the sorted guesses joined by newlines."""
        return sha256("\n".join(self.guesses))

    @functools.cached_property
    def answer_index(self) -> Mapping[str, int]:
        """Position of each answer in `answers`."""
        return {word: index for index, word in enumerate(self.answers)}

    @functools.cached_property
    def guess_index(self) -> Mapping[str, int]:
        """Position of each guess in `guesses`."""
        return {word: index for index, word in enumerate(self.guesses)}

    @functools.cached_property
    def outside(self) -> tuple[str, ...]:
        """Guesses that are not answers, without reserved words."""
        return tuple(word for word in self.guesses if word not in self.answer_index and word not in self.reserved)

    def reserving(self, words: Collection[str]) -> "WordList":
        """Return the list for training, in which these answers can be guessed but are never secrets."""
        kept = tuple(word for word in self.answers if word not in words)
        return replace(self, answers=kept, reserved=frozenset(words)) if words else self

    @functools.cached_property
    def named(self) -> "WordList":
        """The words that training can name: the list without the reserved words."""
        if not self.reserved:
            return self
        return replace(self, guesses=tuple(word for word in self.guesses if word not in self.reserved))

    def __contains__(self, word: object) -> bool:
        """True if a lower-case word can be played."""
        return word in self.guess_index

    def __eq__(self, other: object) -> bool:
        return self.fingerprint == other.fingerprint if isinstance(other, WordList) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.fingerprint)


def word_problem(word: str, word_length: int) -> str | None:
    """Describe what is wrong with a word in any case; None if nothing is."""
    if not word:
        return "is a blank line"
    if not (word.isascii() and word.isalpha()):
        return "has characters other than the letters a to z"
    if len(word) != word_length:
        return f"has {len(word)} letters, the list has {word_length}"
    if not MIN_WORD_LENGTH <= word_length <= MAX_WORD_LENGTH:
        return f"has {word_length} letters, supported are {MIN_WORD_LENGTH} to {MAX_WORD_LENGTH}"
    return None


def sha256(text: str) -> str:
    """Return the SHA-256 hex of ASCII text."""
    return hashlib.sha256(text.encode("ascii")).hexdigest()
