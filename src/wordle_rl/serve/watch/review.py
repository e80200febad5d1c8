"""Review the turns of a game: candidates left, information of each guess, and the solver's guess."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wordle_rl.game import Outcome, Turn
from wordle_rl.solver import Solver

MAX_TURNS = 64
"""Longest board to review."""
_MAX_KEPT = 50_000
_SHOWN = 24

Board = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class TurnReview:
    """A turn as the solver sees it."""

    candidates: int
    """Number of answers that fit the board before the guess."""
    left: int
    """Number of answers that fit after it."""
    bits: float | None
    """Information of the guess, in bits; None if it was not scored."""
    best: str | None
    """The solver's guess on that board; None if no answer fits."""
    best_bits: float | None
    """Its information, not always the maximum, since the solver plays for few guesses."""
    some: tuple[str, ...]
    """The first candidates after the guess, in alphabetical order."""


class Reviewer:
    """Review turns with one solver, and cache results by board; thread-safe."""

    def __init__(self, solver: Solver) -> None:
        self.solver = solver
        self._best: dict[tuple[Board, int], tuple[str, float]] = {}
        self._lock = threading.Lock()

    def __call__(self, turns: Sequence[Turn], max_turns: int) -> list[TurnReview]:
        """Review every turn of a game."""
        with self._lock:
            return list(self._reviews(turns, max_turns))

    def count(self, turns: Sequence[Turn]) -> int:
        """Count the answers that fit a board."""
        with self._lock:
            return len(self.solver.candidates([(guess, marks) for guess, marks in map(_scored, turns) if marks]))

    def _reviews(self, turns: Sequence[Turn], max_turns: int) -> list[TurnReview]:
        known, used, reviews = self.solver.candidates([]), 0, []
        board: Board = ()
        for turn in turns:
            guess, marks = _scored(turn)
            best, best_bits = self._best_on(board, known, max(1, max_turns - used))
            after = self.solver.narrow(known, guess, marks) if marks else known
            bits = self.solver.information_of(guess, known) if marks else None
            some = tuple(self.solver.words.answers[i] for i in after[:_SHOWN].tolist())
            reviews.append(TurnReview(len(known), len(after), bits, best, best_bits, some))
            known, used = after, used + turn.costs_turn
            board = (*board, (guess, marks)) if marks else board
        return reviews

    def _best_on(self, board: Board, known: NDArray[np.int32], turns_left: int) -> tuple[str | None, float | None]:
        if not len(known):
            return None, None
        key = (board, turns_left)
        if key not in self._best:
            if len(self._best) >= _MAX_KEPT:
                self._best.clear()
            guess = self.solver.best_guess(known, turns_left)
            self._best[key] = guess, self.solver.information_of(guess, known)
        return self._best[key]


def _scored(turn: Turn) -> tuple[str, str]:
    return (turn.guess or "", turn.marks or "") if turn.outcome is Outcome.SCORED else ("", "")


def parse_board(text: str, word_length: int) -> list[Turn]:
    """Parse turns such as `salet.XGXGX,buror.,round.YYYXX`; a guess without marks was not scored."""
    turns = []
    for part in text.split(",") if text else ():
        found = re.fullmatch(r"([A-Za-z]{0,64})\.([GYX]*)", part)
        guess, marks = found.groups() if found else ("", "")
        if not found or (marks and not len(marks) == len(guess) == word_length):
            raise ValueError(f"{part[:40]!r} is not a turn; write guess.marks,guess.marks with marks G, Y and X")
        turns.append(Turn(guess.lower() or None, marks or None, Outcome.SCORED if marks else Outcome.MALFORMED))
    if len(turns) > MAX_TURNS:
        raise ValueError(f"{len(turns)} turns; give at most {MAX_TURNS}")
    return turns
