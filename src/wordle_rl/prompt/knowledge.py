"""Knowledge that the marks of a game prove about its secret, and its wording in plain sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from wordle_rl.game import Turn


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Facts about the secret that the marks so far prove.

    `placed[i]` is the letter proved at place i or None; `misplaced` maps a letter to the places (from 0)
    where it is known not to stand although the word holds it; `at_least` counts proved copies;
    `exactly` holds letters whose number is known; `absent` letters that do not occur.
    """

    placed: tuple[str | None, ...]
    misplaced: dict[str, tuple[int, ...]]
    at_least: dict[str, int]
    exactly: dict[str, int]
    absent: tuple[str, ...]


def knowledge_of(turns: Sequence[Turn], word_length: int) -> Knowledge:
    """Gather every scored turn's marks into one `Knowledge`."""
    placed: list[str | None] = [None] * word_length
    misplaced: dict[str, set[int]] = {}
    at_least: dict[str, int] = {}
    exactly: dict[str, int] = {}
    for turn in turns:
        if turn.guess is None or turn.marks is None:
            continue
        for place, letter, mark, found in _marked(turn.guess, turn.marks):
            if mark == "G":
                placed[place] = letter
            elif found:
                misplaced.setdefault(letter, set()).add(place)
            if mark == "X":
                exactly[letter] = found
            if found > at_least.get(letter, 0):
                at_least[letter] = found
    return Knowledge(
        placed=tuple(placed),
        misplaced={letter: tuple(sorted(places)) for letter, places in sorted(misplaced.items())},
        at_least=dict(sorted(at_least.items())),
        exactly=dict(sorted((letter, n) for letter, n in exactly.items() if n)),
        absent=tuple(sorted(letter for letter, n in exactly.items() if n == 0)),
    )


@lru_cache(maxsize=4096)  # a game asks for each of its turns again after every later one
def _marked(guess: str, marks: str) -> tuple[tuple[int, str, str, int], ...]:
    """Each letter of a guess: its place, itself, its mark, and how many copies of it the marks prove."""
    found: dict[str, int] = {}
    for letter, mark in zip(guess, marks, strict=True):
        found[letter] = found.get(letter, 0) + (mark != "X")
    pairs = enumerate(zip(guess, marks, strict=True))
    return tuple((place, letter, mark, found[letter]) for place, (letter, mark) in pairs)


def describe_knowledge(known: Knowledge) -> list[str]:
    """Put knowledge into plain sentences, one per line, without empty lines."""
    lines = []
    placed = [f"{letter} at {place + 1}" for place, letter in enumerate(known.placed) if letter]
    if placed:
        lines.append(f"Letters in their place: {'; '.join(placed)}.")
    elsewhere = [
        f"{letter} (not at {_ordinal_places(places)})"
        for letter, places in known.misplaced.items()
        if sum(p == letter for p in known.placed) < known.at_least[letter]
    ]
    if elsewhere:
        lines.append(f"Letters to place: {'; '.join(elsewhere)}.")
    counted = [f"{n} {letter}" for letter, n in known.exactly.items()]
    if counted:
        lines.append(f"No more than: {', '.join(counted)}.")
    repeated = [f"{n} {letter}" for letter, n in known.at_least.items() if n > 1 and letter not in known.exactly]
    if repeated:
        lines.append(f"At least: {', '.join(repeated)}.")
    if known.absent:
        lines.append(f"Letters not in the word: {' '.join(known.absent)}.")
    return lines


def _ordinal_places(places: Sequence[int]) -> str:
    return ", ".join(str(place + 1) for place in places)
