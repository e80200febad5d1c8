"""Dialects of Wordle environments: how a guess is written, and how marks are read from an observation."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache

_MARKS = dict(zip("GYXB-_.🟩🟨⬛⬜", "GYXXXXXGYXX", strict=True))
_SYMBOLS = {"(✓)": "G", "(-)": "Y", "(x)": "X"}
_PHRASES = {"in its place": "G", "elsewhere in the word": "Y", "no (further) copy": "X"}
_MEANING = {**_MARKS, **_SYMBOLS, **_PHRASES}


class Dialect(StrEnum):
    """How a guess is written in a reply."""

    TAGGED = "tagged"
    BRACKETED = "bracketed"
    PLAIN = "plain"

    def write(self, word: str) -> str:
        """Write a guess.

        Examples:
            >>> [each.write("crane") for each in Dialect]
            ['<guess>crane</guess>', '[crane]', 'crane']
        """
        return {"tagged": f"<guess>{word}</guess>", "bracketed": f"[{word}]", "plain": word}[self.value]


def read_marks(text: str, guess: str) -> str | None:
    """Read the marks of a guess from an observation, `G`, `Y`, `X` per letter; None if there are none.

    The letters must stand beside their marks, so marks of another guess are never read. The last match counts. Spaced
    marks that make up the whole observation belong to the guess it answers.

    Examples:
        >>> read_marks("C R A N E\\nG Y X X X", "crane")
        'GYXXX'
    """
    found = (match for form in _forms(guess) for match in form.finditer(text))
    last = max(found, key=lambda match: match.start(), default=None)
    return None if last is None else "".join(_MEANING[mark] for mark in last.groups())


@lru_cache(maxsize=8192)
def _forms(guess: str) -> list[re.Pattern[str]]:
    """Return the patterns of a guess with its marks, one group per mark."""
    mark, symbol, phrase = ("|".join(map(re.escape, known)) for known in (_MARKS, _SYMBOLS, _PHRASES))
    marks, letters = r"\s*".join([f"({mark})"] * len(guess)), [re.escape(letter) for letter in guess]
    spaced, apart = r"\s*".join(letters), r"[^a-zA-Z\n]{0,3}".join(letters)
    rule = r"[|+ :-]*---[|+ :-]*$"  # a table's rule: its dashes are no marks
    forms = (
        # G Y X X X and nothing else: the guess is in the reply that this answers
        r"\A\s*" + r"\s+".join(["([GYX])"] * len(guess)) + r"\s*\Z",
        # crane GYXXX, crane: G Y X X X, crane -> 🟩🟨⬛⬛⬛
        rf"(?<![a-zA-Z])(?i:{spaced})(?![a-zA-Z])[^a-zA-Z\n]{{1,6}}?{marks}(?!\w)",
        # A line that ends with the letters, then one of the next two lines, which ends with the marks
        rf"(?<![a-zA-Z])(?i:{apart})[^a-zA-Z\n]*\n(?:.*\n)??(?!{rule}).*?{marks}[ \t|]*$",
        "".join(f"{letter}([GYX])" for letter in letters),  # cGrYaXnXeX
        r"\s+".join(rf"{letter.upper()}({symbol})" for letter in letters),  # C(✓) R(-) A(x) N(x) E(✓)
        # crane: c: in its place, r: elsewhere in the word, …
        f"{re.escape(guess)}: " + ", ".join(f"{letter}: ({phrase})" for letter in letters),
    )
    return [re.compile(form, re.MULTILINE) for form in forms]
