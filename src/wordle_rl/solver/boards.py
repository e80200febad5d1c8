"""Boards: the answers that fit, and the regret of a turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from wordle_rl.game import Turn
from wordle_rl.solver.exact import Solver

_MAX_BOARDS = 20_000


def fitting_answers(solver: Solver) -> Callable[[Sequence[Turn]], NDArray[np.int32]]:
    """Return a function from a board to the indices of the answers that fit it; it caches results."""

    @lru_cache(_MAX_BOARDS)
    def candidates(scored: tuple[tuple[str, str], ...]) -> NDArray[np.int32]:
        return solver.narrow(candidates(scored[:-1]), *scored[-1]) if scored else solver.candidates(())

    return lambda board: candidates(
        tuple((turn.guess, turn.marks) for turn in board if turn.guess is not None and turn.marks is not None)
    )


def turn_regret(turn: Turn, candidates: NDArray[np.int32], regret: Callable[[str, NDArray[np.int32]], float]) -> float:
    """Return the regret of a turn in expected guesses, clipped to 0 to 1.

    A turn without marks costs 1, like a guess without information. If no candidate is left, it is 0.
    """
    # Regret ignores the turn limit: with it the search is several times slower, and `win` already punishes a loss.
    if turn.guess is None or turn.marks is None:
        return 1.0
    if len(candidates) == 0:
        return 0.0
    return min(1.0, max(0.0, regret(turn.guess, candidates)))
