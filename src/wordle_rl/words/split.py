"""Split the answers into train, val and test secrets; the words of prompts, which are never strict ones."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from wordle_rl.words.word_list import WordList, WordListError

SplitName = Literal["all", "train", "val", "test", "held_out", "strict"]

EXAMPLE_WORDS = ("zoo", "jazz", "xylyl", "jujube", "pizzazz", "quizzing", "whizzbang", "razzmatazz")
"""The example word in prompts, for each length.

Small models copy it, and copying must not look like skill. So it is a poor opener (`xylyl` gives 2.2 bits, `crane` 5.7)
and in no known list of answers.
"""

PROMPT_WORDS = frozenset((
    "zoo", "jazz", "xylyl", "jujube", "pizzazz", "quizzing", "whizzbang", "razzmatazz", "few", "many", "with",
    "after", "all", "allowed", "and", "any", "apart", "are", "assistant", "briefly", "but", "compact", "copy",
    "crane", "each", "education", "elsewhere", "english", "every", "exactly", "example", "far", "find", "first",
    "fits", "format", "further", "game", "generation", "gets", "groups", "guess", "guessed", "guesses", "hard",
    "has", "held",
    "hint", "inside", "into", "its", "know", "later", "least", "leaves", "left", "length", "letter", "letters", "list",
    "listed", "mark", "max", "may", "missing", "mode", "more", "most", "must", "new", "none", "not", "notebook",
    "nothing", "number", "off", "one", "only", "open", "optional", "original", "other", "out", "outside", "place",
    "planet", "player", "possible", "prompt", "rain", "readable", "reason", "refused", "relation", "reply", "required",
    "revealed",
    "secret", "several", "shape", "some", "sorts", "spelled", "square", "start", "state", "station", "style", "symbol",
    "symbols", "system",
    "tags", "tea", "tells", "text", "textarena", "than", "that", "the", "their", "them", "then", "think",
    "thinking", "told", "transcript", "turn", "turns", "unclosed", "unknown", "used", "user", "wastes",
    "whether",
    "word", "wordle", "words", "write", "wrong", "you", "your",
))  # fmt: skip
"""Every word of 3 to 10 letters in our prompts, feedback, tags and the solver's thinking; they are never strict words.

Texts of other projects and styles of your own hold others: a run whose prompts name a strict word is refused.
"""


@dataclass(frozen=True)
class Split:
    """The answers of a list in three disjoint parts. Each is shuffled, so its first n secrets are a fair sample.

    `strict` are test secrets that training never names, neither as a secret nor in anybody's guess.
    """

    train: tuple[str, ...] = field(repr=False)
    val: tuple[str, ...] = field(repr=False)
    test: tuple[str, ...] = field(repr=False)
    seed: int
    fingerprint: str
    strict: tuple[str, ...] = field(default=(), repr=False)

    @property
    def never_trained(self) -> frozenset[str]:
        """The val and test secrets, which no training game may have."""
        return frozenset(self.val + self.test)

    def named(self, name: SplitName) -> tuple[str, ...]:
        """Return a part by name: `held_out` is `test`, `strict` a subset of it, `all` every answer in order."""
        if name == "all":
            return tuple(sorted(self.train + self.val + self.test))
        parts = {"train": self.train, "val": self.val, "test": self.test, "held_out": self.test, "strict": self.strict}
        if name not in parts:
            raise WordListError(f"unknown split part {name!r}: give all, train, val, test, held_out or strict")
        return parts[name]

    def of_each_part(self, count: int) -> list[str]:
        """Return the first `count` secrets of train, val and test each; 0: all."""
        return [secret for part in (self.train, self.val, self.test) for secret in part[: count or None]]

    def part_of(self, word: str) -> str:
        """Return the part of a secret, `train`, `val` or `test`; `outside` for a word that is not an answer."""
        return self._part_of.get(word, "outside")

    def held_out_reason(self, word: str) -> str | None:
        """Return why a word must be left out, `val_secret` or `test_secret`; None if it is not held out."""
        part = self.part_of(word)
        return f"{part}_secret" if part in ("val", "test") else None

    def strict_words_in(self, *texts: str | None) -> frozenset[str]:
        """Return the strict words that texts contain, in any case."""
        if not self.strict:
            return frozenset()
        return self._strict.intersection(word for text in texts if text for word in words_of_text(text))

    @cached_property
    def _strict(self) -> frozenset[str]:
        return frozenset(self.strict)

    @cached_property
    def _part_of(self) -> dict[str, str]:
        return {secret: part for part in ("train", "val", "test") for secret in getattr(self, part)}

    def shared(self, rl_only: float) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the training secrets of teacher games, and those of RL: a fraction of its own, or all if that is 0."""
        num_kept = int(len(self.train) * rl_only)
        num_taught = len(self.train) - num_kept
        return self.train[:num_taught], self.train[num_taught:] if num_kept else self.train


_WORD = re.compile(r"[a-z]+")


def words_of_text(text: str) -> list[str]:
    """Return the words of a text in lower case.

    Examples:
        >>> words_of_text("Crane? <guess>slate</guess>")
        ['crane', 'guess', 'slate', 'guess']
    """
    return _WORD.findall(text.lower())


def split_secrets(
    words: WordList,
    seed: int = 0,
    *,
    strict_fraction: float = 0.0,
    val_size: int | None = None,
    test_size: int | None = None,
) -> Split:
    """Split the answers into train, val and test, in the same way on every machine and Python version.

    Answers are sorted by the SHA-256 of `fingerprint:seed:answer`. The first go to test, the next to val, the rest to
    train, so changing `val_size` alone keeps the test secrets. Strict words are test secrets, chosen by a second such
    order, so `strict_fraction` changes no part as long as there are enough test secrets. Words in prompts are never
    strict.

    By default val is 5 % of the answers; test is 11 %, at least 300 if there are 1,500 answers or more, and large
    enough for the strict words.
    """
    total = len(words.answers)
    num_strict = round(total * strict_fraction)
    # A hash in place of a random generator, whose shuffles may differ between Python versions.
    order = sorted(words.answers, key=lambda word: _place(words.fingerprint, seed, word))
    if test_size is None:
        test_size = max(total * 11 // 100, 300 if total >= 1500 else 1, num_strict)
        while test_size < total and len(set(order[:test_size]) - PROMPT_WORDS) < num_strict:
            test_size += 1
    num_unseen = len(set(order[:test_size]) - PROMPT_WORDS)
    if not 0 <= num_strict <= num_unseen:
        raise WordListError(
            f"strict_fraction {strict_fraction} is {num_strict} words, and {num_unseen} of {test_size} test secrets "
            "are in no prompt; lower it"
        )
    if val_size is None:
        val_size = max(total * 5 // 100, 1)
    if test_size < 1 or val_size < 1 or test_size + val_size >= total:
        raise WordListError(
            f"{total} answers cannot give {test_size} test, {val_size} val and at least 1 train secret: "
            "use a longer list or other sizes, each at least 1"
        )
    test, val, train = order[:test_size], order[test_size : test_size + val_size], order[test_size + val_size :]
    unseen = sorted(set(test) - PROMPT_WORDS, key=lambda word: _place(words.fingerprint, seed, f"strict:{word}"))
    return Split(
        tuple(train),
        tuple(val),
        tuple(test),
        seed=seed,
        fingerprint=words.fingerprint,
        strict=tuple(unseen[:num_strict]),
    )


def _place(fingerprint: str, seed: int, word: str) -> str:
    return hashlib.sha256(f"{fingerprint}:{seed}:{word}".encode()).hexdigest()
