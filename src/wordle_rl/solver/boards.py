"""Boards: the answers that fit one, and the regret of a turn on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from wordle_rl.game import Turn
from wordle_rl.solver.exact import Solver

_MAX_BOARDS = 20_000


def fitting_answers(solver: Solver) -> Callable[[Sequence[Turn]], NDArray[np.int32]]:
    """A function from a board to the answers that fit it, as indices; it caches its results."""

    @lru_cache(_MAX_BOARDS)
    def candidates(scored: tuple[tuple[str, str], ...]) -> NDArray[np.int32]:
        return solver.narrow(candidates(scored[:-1]), *scored[-1]) if scored else solver.candidates(())

    return lambda board: candidates(
        tuple((turn.guess, turn.marks) for turn in board if turn.guess is not None and turn.marks is not None)
    )


def turn_regret(turn: Turn, candidates: NDArray[np.int32], regret: Callable[[str, NDArray[np.int32]], float]) -> float:
    """The expected guesses a turn gave away to the solver, as `regret` counts them, cut to the range 0 to 1.

    A turn without marks costs 1, as a guess without information does. With no candidate left there is nothing to
    compare: 0. Expected guesses are counted without a limit of turns: with one the search is several times slower, and
    a lost game is paid for by `win`.
    """
    if turn.guess is None or turn.marks is None:
        return 1.0
    if len(candidates) == 0:
        return 0.0
    return min(1.0, max(0.0, regret(turn.guess, candidates)))
