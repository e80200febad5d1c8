"""Find the guess that splits the remaining answers into the most classes, for thousands of boards."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wordle_rl.solver.partition import count_split

_MAX_RIVALS = 128
_MAX_PROBED = 32
_MAX_MEMO = 400_000


class BestGuess:
    """Find and remember the best guess for sets of remaining answers.

    Args:
        answer_codes: Marks as numbers, shape (guesses, answers).
        answer_as_guess: Index of each answer among the guesses, shape (answers,).
        num_codes: Number of different marks.
    """

    def __init__(
        self, answer_codes: npt.NDArray[np.integer], answer_as_guess: npt.NDArray[np.int32], num_codes: int
    ) -> None:
        self._answer_codes, self._answer_as_guess, self._num_codes = answer_codes, answer_as_guess, num_codes
        self._by_answer = np.ascontiguousarray(answer_codes.T)  # (answers, guesses)
        self._known: dict[tuple[bytes, int], tuple[int, int]] = {}

    def find(self, key: bytes, possible: npt.NDArray[np.bool_], probe_gain: int) -> tuple[int, int]:
        """Return the index of the best guess and its number of classes.

        Args:
            key: `possible`, packed into bits.
            possible: Whether each answer is possible, shape (answers,), at least one.
            probe_gain: Prefer a word that cannot be the secret if it makes this many classes more. 0: never.
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
        if len(candidates) <= 2:
            return int(self._answer_as_guess[candidates[0]]), len(candidates)
        rivals = candidates[:: -(-len(candidates) // _MAX_RIVALS)]  # of many, try a sample spread over the alphabet
        block = self._answer_codes[np.ix_(self._answer_as_guess[rivals], candidates)]  # (rivals, candidates)
        occurs = np.zeros((len(rivals), self._num_codes), np.bool_)
        occurs[np.arange(len(rivals))[:, None], block] = True
        classes = occurs.sum(axis=1)
        best = int(np.argmax(classes))
        return int(self._answer_as_guess[rivals[best]]), int(classes[best])

    def _probe(self, candidates: npt.NDArray[np.intp], found: tuple[int, int], gain: int) -> tuple[int, int]:
        step = -(-len(candidates) // _MAX_PROBED)  # for many candidates, try only some of the listed words
        block = np.ascontiguousarray(self._by_answer[candidates, ::step])  # (candidates, guesses)
        classes = count_split(block).num_classes
        best = int(np.argmax(classes))
        return (best * step, int(classes[best])) if classes[best] >= found[1] + gain else found
