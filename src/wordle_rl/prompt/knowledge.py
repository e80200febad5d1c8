"""What the marks of a game prove about its secret, as facts and in plain sentences."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from wordle_rl.game import Turn, scored_pairs


class Knowledge(NamedTuple):
    """Facts about the secret that the marks so far prove."""

    placed: tuple[str | None, ...]  # known letter at each place
    misplaced: dict[str, tuple[int, ...]]  # for each letter of the word, the places (from 0) where it is not
    at_least: dict[str, int]  # known number of copies of each letter
    exactly: dict[str, int]  # number of copies of each letter whose number is known exactly
    absent: tuple[str, ...]  # letters that do not occur


def knowledge_of(turns: Sequence[Turn], word_length: int) -> Knowledge:
    """Collect what the marks of all turns prove."""
    return _known(scored_pairs(turns), word_length)


def knowledge_lines(turns: Sequence[Turn], word_length: int) -> tuple[str, ...]:
    """Describe what the marks of all turns prove; see `describe_knowledge`."""
    return _lines(scored_pairs(turns), word_length)


_Scored = tuple[tuple[str, str], ...]  # guesses and their marks


@lru_cache(maxsize=1 << 14)
def _lines(scored: _Scored, word_length: int) -> tuple[str, ...]:
    return tuple(describe_knowledge(_known(scored, word_length)))


@lru_cache(maxsize=1 << 14)
def _known(scored: _Scored, word_length: int) -> Knowledge:
    placed: list[str | None] = [None] * word_length
    misplaced: dict[str, set[int]] = {}
    at_least: dict[str, int] = {}
    exactly: dict[str, int] = {}
    absent: set[str] = set()
    for guess, marks in scored:
        # Green and yellow marks prove copies of a letter; a gray one beside them says that there are no more.
        proved: dict[str, int] = {}
        for letter, mark in zip(guess, marks, strict=True):
            proved[letter] = proved.get(letter, 0) + (mark != "X")
        for place, letter in enumerate(guess):
            if not (copies := proved[letter]):
                absent.add(letter)
                continue
            if marks[place] == "G":
                placed[place] = letter
            else:
                misplaced.setdefault(letter, set()).add(place)
            if marks[place] == "X":
                exactly[letter] = copies
            if copies > at_least.get(letter, 0):
                at_least[letter] = copies
    return Knowledge(
        placed=tuple(placed),
        misplaced={letter: tuple(sorted(misplaced[letter])) for letter in sorted(misplaced)},
        at_least=dict(sorted(at_least.items())),
        exactly=dict(sorted(exactly.items())),
        absent=tuple(sorted(absent)),
    )


def describe_knowledge(known: Knowledge) -> list[str]:
    """Describe knowledge in plain sentences, one per line."""
    lines = []
    placed = [f"{letter} at {place}" for place, letter in enumerate(known.placed, start=1) if letter]
    if placed:
        lines.append(f"Letters in their place: {'; '.join(placed)}.")
    elsewhere = [
        f"{letter} (not at {', '.join([str(place + 1) for place in places])})"
        for letter, places in known.misplaced.items()
        if known.placed.count(letter) < known.at_least[letter]
    ]
    if elsewhere:
        lines.append(f"Letters to place: {'; '.join(elsewhere)}.")
    if known.exactly:
        lines.append(f"No more than: {', '.join([f'{n} {letter}' for letter, n in known.exactly.items()])}.")
    repeated = [f"{n} {letter}" for letter, n in known.at_least.items() if n > 1 and letter not in known.exactly]
    if repeated:
        lines.append(f"At least: {', '.join(repeated)}.")
    if known.absent:
        lines.append(f"Letters not in the word: {' '.join(known.absent)}.")
    return lines
