"""Approximate regret: look one guess ahead and use a curve for what follows."""

import math

import numpy as np
import numpy.typing as npt

from wordle_rl.solver.matrix import Codes
from wordle_rl.solver.partition import Int64s, class_sizes, sum_logs
from wordle_rl.solver.search import Candidates

_UNIT = 1 << 20  # whole numbers add up to the same sum in any order
_MEMO_LIMIT = 200_000


class QuickRegret:
    """Approximate regret, with every class of candidates as an average one of its size; arguments as of `Search`."""

    def __init__(self, by_answer: Codes, guess_of_answer: npt.NDArray[np.intp], all_green: int) -> None:
        self._by_answer, self._guess_of_answer, self._all_green = by_answer, guess_of_answer, all_green
        # For class size c, the guesses that its members typically need beyond one each: c * (typical - 1), in units.
        sizes = range(len(by_answer) + 2)
        self._table = np.array([round(_UNIT * c * (typical_guesses(c) - 1)) for c in sizes], dtype=np.int64)
        self._best: dict[bytes, float] = {}

    def of(self, candidates: Candidates, codes: Codes) -> float:
        """Return the expected guesses that the guess with these codes gives away against the best listed one."""
        hit = bool(np.any(codes == self._all_green))
        own = (int(self._table[class_sizes(codes)].sum()) - hit * _UNIT) / len(candidates)
        given_away: float = max(0.0, own - self._least(candidates)) / _UNIT
        return given_away

    def of_all(self, candidates: Candidates) -> npt.NDArray[np.float64]:
        """Return the expected guesses that each listed guess gives away, shape (num_guesses,); the best gives 0."""
        sums = self._sums(candidates)
        given_away: npt.NDArray[np.float64] = (sums - sums.min()) / (_UNIT * len(candidates))
        return given_away

    def _least(self, candidates: Candidates) -> float:
        key = candidates.tobytes()
        if key not in self._best:
            if len(self._best) >= _MEMO_LIMIT:
                self._best.clear()
            self._best[key] = float(self._sums(candidates).min() / len(candidates))
        return self._best[key]

    def _sums(self, candidates: Candidates) -> Int64s:
        sums = sum_logs(self._by_answer[candidates], self._table)  # (num_guesses,); any table of class sizes will do
        sums[self._guess_of_answer[candidates]] -= _UNIT  # a candidate can be the secret itself
        return sums


def typical_guesses(num_candidates: int) -> float:
    """Return the guesses that best play typically needs for this many candidates; a curve fitted to solved sets.

    Examples:
        >>> [round(typical_guesses(n), 2) for n in (0, 1, 2, 20, 2315)]
        [1.0, 1.0, 1.5, 2.33, 3.52]
    """
    bits = math.log2(max(1, num_candidates))
    return 1.0 + 0.5 * math.pow(bits, 0.67)
