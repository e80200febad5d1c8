"""What the marks of a game prove about its secret, as facts and in plain sentences."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

from wordle_rl.game import Turn


class Knowledge(NamedTuple):
    """Facts about the secret that the marks so far prove.

    Attributes:
        placed: Known letter at each place, or None.
        misplaced: For each letter of the word, the places (from 0) where it is known not to be.
        at_least: Known number of copies of each letter.
        exactly: Number of copies of each letter whose number is known exactly.
        absent: Letters that do not occur.
    """

    placed: tuple[str | None, ...]
    misplaced: dict[str, tuple[int, ...]]
    at_least: dict[str, int]
    exactly: dict[str, int]
    absent: tuple[str, ...]


def knowledge_of(turns: Sequence[Turn], word_length: int) -> Knowledge:
    """Collect what the marks of all turns prove."""
    return _known(_scored(turns), word_length)


def knowledge_lines(turns: Sequence[Turn], word_length: int) -> tuple[str, ...]:
    """Describe what the marks of all turns prove; see `describe_knowledge`."""
    return _lines(_scored(turns), word_length)


_Scored = tuple[tuple[str, str], ...]  # guesses and their marks


def _scored(turns: Sequence[Turn]) -> _Scored:
    return tuple([(turn.guess, turn.marks) for turn in turns if turn.guess is not None and turn.marks is not None])


@lru_cache(maxsize=1 << 14)
def _lines(scored: _Scored, word_length: int) -> tuple[str, ...]:
    return tuple(describe_knowledge(_known(scored, word_length)))


@lru_cache(maxsize=4096)
def _known(scored: _Scored, word_length: int) -> Knowledge:
    # Recursive with a cache: a game asks after every turn, so only the last turn has to be added.
    if not scored:
        return Knowledge((None,) * word_length, {}, {}, {}, ())
    before = _known(scored[:-1], word_length)
    guess, marks = scored[-1]
    proved = dict.fromkeys(guess, 0)  # known copies of each letter
    for letter, mark in zip(guess, marks, strict=True):
        if mark != "X":
            proved[letter] += 1
    placed, absent = list(before.placed), {*before.absent}
    misplaced, at_least, exactly = {**before.misplaced}, {**before.at_least}, {**before.exactly}
    for place, letter in enumerate(guess):
        if not (found := proved[letter]):
            absent.add(letter)
            continue
        if (mark := marks[place]) == "G":
            placed[place] = letter
        elif place not in (places := misplaced.get(letter, ())):
            misplaced[letter] = tuple(sorted((*places, place)))
        if mark == "X":
            exactly[letter] = found
        if found > at_least.get(letter, 0):
            at_least[letter] = found
    return Knowledge(
        placed=tuple(placed),
        misplaced=_by_letter(misplaced, before.misplaced),
        at_least=_by_letter(at_least, before.at_least),
        exactly=_by_letter(exactly, before.exactly),
        absent=before.absent if len(absent) == len(before.absent) else tuple(sorted(absent)),
    )


_T = TypeVar("_T")


def _by_letter(facts: dict[str, _T], before: dict[str, _T]) -> dict[str, _T]:
    # Sort by letter; `before` is already sorted, and letters are only added.
    return facts if len(facts) == len(before) else {letter: facts[letter] for letter in sorted(facts)}


def describe_knowledge(known: Knowledge) -> list[str]:
    """Describe knowledge in plain sentences, one per line."""
    lines = []
    placed = [f"{letter} at {place}" for place, letter in enumerate(known.placed, start=1) if letter]
    if placed:
        lines.append(f"Letters in their place: {'; '.join(placed)}.")
    elsewhere = [
        _not_at(letter, places)
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


@lru_cache(maxsize=1024)
def _not_at(letter: str, places: tuple[int, ...]) -> str:
    return f"{letter} (not at {', '.join([str(place + 1) for place in places])})"
