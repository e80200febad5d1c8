"""Dialects of Wordle environments: how a guess is written, and how the marks in an observation are read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

_MARK = {
    "G": "G",
    "Y": "Y",
    "X": "X",
    "B": "X",
    "-": "X",
    "_": "X",
    ".": "X",
    "🟩": "G",
    "🟨": "Y",
    "⬛": "X",
    "⬜": "X",
}
_SYMBOLS = {"✓": "G", "-": "Y", "x": "X"}
_PHRASES = {"in its place": "G", "elsewhere in the word": "Y", "no (further) copy": "X"}


class Writing(StrEnum):
    """Form of a guess in a reply."""

    TAGGED = "tagged"
    """`<guess>crane</guess>`"""
    BRACKETED = "bracketed"
    """`[crane]`"""
    PLAIN = "plain"
    """`crane`"""


@dataclass(frozen=True)
class Dialect:
    """Form of the replies that one environment reads."""

    writing: Writing = Writing.TAGGED

    def write(self, word: str) -> str:
        """Write a guess.

        Examples:
            >>> Dialect(Writing.BRACKETED).write("crane")
            '[crane]'
        """
        opening, closing = {
            Writing.TAGGED: ("<guess>", "</guess>"),
            Writing.BRACKETED: ("[", "]"),
            Writing.PLAIN: ("", ""),
        }[self.writing]
        return f"{opening}{word}{closing}"

    @property
    def has_grammar(self) -> bool:
        """True if a guess is set apart from prose, so that prose is not taken for a guess."""
        return self.writing is not Writing.PLAIN


def read_marks(text: str, guess: str) -> str | None:
    """Read the marks that an observation gives to a guess; the last ones if it shows several boards.

    The letters must stand beside their marks, so the marks of another guess are never taken for these. Known forms:
    the guess and then its marks, a line of letters over a line of marks (also in a table), letters and marks by turns,
    coloured squares, letters with a symbol each (`C(✓) R(-) A(x)`), and the sentences of the `english` style.

    Args:
        text: The observation.
        guess: The word that was guessed, lower case.

    Returns:
        One of `G`, `Y`, `X` per letter, or None if the text marks no such guess.

    Examples:
        >>> read_marks("C R A N E\\nG Y X X X", "crane")
        'GYXXX'
        >>> read_marks("crane 🟩🟨⬛⬛⬛, slate ⬛⬛🟩⬛🟩", "crane")
        'GYXXX'
        >>> read_marks("crane: not in the word list", "crane") is None
        True
    """
    patterns = _patterns(guess)
    found = list(_under_the_guess(text, patterns))
    for match in patterns.after.finditer(text):
        found.append((match.start(), _plain(match.groups())))
    for match in patterns.by_turns.finditer(text):
        found.append((match.start(), _plain(match.groups())))
    for match in patterns.with_symbols.finditer(text):
        found.append((match.start(), "".join(_SYMBOLS[symbol] for symbol in match.groups())))
    for match in patterns.in_sentences.finditer(text):
        found.append((match.start(), "".join(_PHRASES[part] for part in match.groups())))
    return max(found)[1] if found else None


@dataclass(frozen=True)
class _Patterns:
    """Patterns of one guess with its marks.

    Attributes:
        after: `crane GYXXX`, `crane: G Y X X X`, `crane -> 🟩🟨⬛⬛⬛`.
        letters: The end of a line of letters,
        marks: and that of the line of marks under it.
        by_turns: `cGrYaXnXeX`, as the compact style has it.
        with_symbols: `C(✓) R(-) A(x) N(x) E(✓)`, as the letters style has it.
        in_sentences: `crane: c: in its place, r: elsewhere in the word, …`.
    """

    after: re.Pattern[str]
    letters: re.Pattern[str]
    marks: re.Pattern[str]
    by_turns: re.Pattern[str]
    with_symbols: re.Pattern[str]
    in_sentences: re.Pattern[str]


@lru_cache(maxsize=8192)
def _patterns(guess: str) -> _Patterns:
    letters = [re.escape(letter) for letter in guess]
    spaced = r"\s*".join(letters)
    marks = r"\s*".join([f"([{re.escape(''.join(_MARK))}])"] * len(guess))
    phrase = "(" + "|".join(map(re.escape, _PHRASES)) + ")"
    return _Patterns(
        re.compile(rf"(?<![a-zA-Z])(?i:{spaced})(?![a-zA-Z])[^a-zA-Z\n]{{1,6}}?{marks}(?!\w)"),
        re.compile(rf"(?<![a-zA-Z])(?i:{'[^a-zA-Z]{0,3}'.join(letters)})[^a-zA-Z]*$"),
        re.compile(marks + r"[\s|]*$"),
        re.compile("".join(f"{letter}([GYX])" for letter in letters)),
        re.compile(r"\s+".join(rf"{letter.upper()}\(([✓x-])\)" for letter in letters)),
        re.compile(f"{re.escape(guess)}: " + ", ".join(f"{letter}: {phrase}" for letter in letters)),
    )


def _under_the_guess(text: str, patterns: _Patterns) -> Iterator[tuple[int, str]]:
    """Marks in one of the two lines under a line that ends with the letters; a table has a rule between them."""
    lines = text.split("\n")
    place = 0
    for number, line in enumerate(lines):
        if patterns.letters.search(line):
            below = [line for line in lines[number + 1 : number + 3] if not _is_rule(line)]
            if found := [match for match in map(patterns.marks.search, below) if match]:
                yield place, _plain(found[0].groups())
        place += len(line) + 1


def _plain(marks: tuple[str, ...]) -> str:
    return "".join(_MARK[mark] for mark in marks)


def _is_rule(line: str) -> bool:
    """A table's line of dashes, which are marks in no dialect."""
    return set(line) <= set("|-+ :") and "-" * 3 in line
