"""Review the turns of a game: candidates left, information of each guess, and the solver's guess."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from wordle_rl.game import Outcome, Turn, scored_pairs, turns_used
from wordle_rl.solver import Solver
from wordle_rl.solver.fewest_guesses import Candidates

MAX_TURNS = 64
"""Longest board to review."""
_SHOWN = 24
_MAX_SETS = 1 << 15  # of candidates, half a kilobyte each on average
MANY = 32
"""Sets of more candidates take some hundredths of a second to search."""


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
    """Review turns with one solver, whose memory is not thread-safe, one game at a time.

    Whoever else asks the solver shares the `lock`.
    """

    def __init__(self, solver: Solver, lock: threading.Lock | None = None) -> None:
        self.solver = solver
        self._lock = lock or threading.Lock()
        # When they are too many, the solver forgets all of its plans, the slow one of the empty board among them.
        self._best_guess = lru_cache(_MAX_SETS)(
            lambda known, turns: solver.best_guess(np.frombuffer(known, np.int32), turns)
        )
        self._quick_guess = lru_cache(_MAX_SETS)(
            lambda known: solver.words.guesses[int(solver.quick_regrets(np.frombuffer(known, np.int32)).argmin())]
        )

    def __call__(
        self, turns: Sequence[Turn], max_turns: int, first: int = 0, quick_from: int | None = None
    ) -> list[TurnReview]:
        """Review every turn of a game, from turn number `first` on.

        From turn number `quick_from` on, the solver's guess on a board of more than `MANY` candidates is the one of the
        least quick regret, without a search: the same on four of ten such boards, and 0.007 guesses worse on average.
        """
        reviews, used = [], turns_used(turns[:first])
        with self._lock:
            known = self._known(turns[:first])
            for number, turn in enumerate(turns[first:], start=first):
                guess, marks = turn.guess or "", turn.marks or ""
                best = None
                if len(known) > MANY and quick_from is not None and number >= quick_from:
                    best = self._quick_guess(known.tobytes())
                elif len(known):
                    best = self._best_guess(known.tobytes(), max(1, max_turns - used))
                best_bits = None if best is None else self.solver.information_of(best, known)
                after = self.solver.narrow(known, guess, marks) if marks else known
                bits = self.solver.information_of(guess, known) if marks else None
                some = tuple(self.solver.words.answers[i] for i in after[:_SHOWN].tolist())
                reviews.append(TurnReview(len(known), len(after), bits, best, best_bits, some))
                known, used = after, used + turn.costs_turn
        return reviews

    def count(self, turns: Sequence[Turn]) -> int:
        """Count the answers that fit a board."""
        with self._lock:
            return len(self._known(turns))

    def _known(self, turns: Sequence[Turn]) -> Candidates:
        return self.solver.candidates(scored_pairs(turns))


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
