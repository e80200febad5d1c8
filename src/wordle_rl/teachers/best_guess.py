"""The guess that splits the remaining answers into the most classes, looked up or computed for thousands of boards."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wordle_rl.solver.partition import count_split

_MAX_RIVALS = 128
_MAX_PROBED = 32
_MAX_MEMO = 400_000


class BestGuess:
    """Finds the best guess for a set of remaining answers, and remembers it.

    Args:
        answer_codes: Marks as numbers, shape (guesses, answers).
        answer_as_guess: The answers as indices into the guesses, shape (answers,).
        num_codes: How many different marks there are.
    """

    def __init__(
        self, answer_codes: npt.NDArray[np.integer], answer_as_guess: npt.NDArray[np.int32], num_codes: int
    ) -> None:
        self._answer_codes, self._answer_as_guess, self._num_codes = answer_codes, answer_as_guess, num_codes
        self._by_answer = np.ascontiguousarray(answer_codes.T)  # (answers, guesses): answers as rows
        self._known: dict[tuple[bytes, int], tuple[int, int]] = {}

    def find(self, key: bytes, possible: npt.NDArray[np.bool_], probe_gain: int) -> tuple[int, int]:
        """The best guess, as an index into the guesses, and its number of classes.

        Args:
            key: `possible`, packed into bits.
            possible: Whether each answer is possible, shape (answers,), one at least.
            probe_gain: A word that cannot be the secret is best if it makes this many classes more; 0: it never is.
        """
        found = self._known.get((key, probe_gain))
        if found is None:
            if len(self._known) >= _MAX_MEMO:
                self._known.clear()
            candidates = np.flatnonzero(possible)
            found = self._best_candidate(candidates)
            if probe_gain and found[1] + probe_gain <= len(candidates) <= _MAX_RIVALS:
                found = self._probe(candidates, found, probe_gain)
            self._known[key, probe_gain] = found
        return found

    def _best_candidate(self, candidates: npt.NDArray[np.intp]) -> tuple[int, int]:
        """The candidate that splits the candidates into the most classes, the first of equals, and their number.

        Of more than `_MAX_RIVALS` candidates only about that many are tried, evenly spread over the alphabet.
        """
        if len(candidates) <= 2:
            return int(self._answer_as_guess[candidates[0]]), len(candidates)
        rivals = candidates[:: -(-len(candidates) // _MAX_RIVALS)]
        block = self._answer_codes[np.ix_(self._answer_as_guess[rivals], candidates)]  # (rivals, candidates)
        occurs = np.zeros((len(rivals), self._num_codes), np.bool_)
        occurs[np.arange(len(rivals))[:, None], block] = True
        classes = occurs.sum(axis=1)
        best = int(np.argmax(classes))
        return int(self._answer_as_guess[rivals[best]]), int(classes[best])

    def _probe(self, candidates: npt.NDArray[np.intp], found: tuple[int, int], gain: int) -> tuple[int, int]:
        """The listed word with the most classes if it makes `gain` more than the best candidate, else that one.

        For more than `_MAX_PROBED` candidates only a part of the listed words, evenly spread, is tried.
        """
        step = -(-len(candidates) // _MAX_PROBED)
        block = np.ascontiguousarray(self._by_answer[candidates, ::step])  # (candidates, guesses)
        classes = count_split(block).num_classes
        best = int(np.argmax(classes))
        return (best * step, int(classes[best])) if classes[best] >= found[1] + gain else found
