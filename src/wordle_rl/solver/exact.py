"""`Solver`: candidates, information, best play and regret for one word list."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wordle_rl.solver.matrix import Codes, SolverError, code_dtype, encode_marks, marks_matrix
from wordle_rl.solver.partition import (
    Int64s,
    bits_from_log_sum,
    class_sizes,
    count_split,
    largest_classes,
    least_log_sum,
    log_table,
    sum_logs,
)
from wordle_rl.solver.quick import QuickRegret
from wordle_rl.solver.search import UNCAPPED, Candidates, Search, guesses_in, most_telling_candidate
from wordle_rl.solver.store import load_codes, read_sealed, save_codes, write_sealed
from wordle_rl.solver.tree import Tree, grow_tree, tree_from_json, tree_to_json
from wordle_rl.words import WordList, user_cache_dir

DEFAULT_BEAM = 10
_MEMO_LIMIT = 200_000
_SELF_CHECK_LIMIT = 16


@dataclass(frozen=True)
class ScoredGuess:
    """A guess and its information about a set of candidates.

    Attributes:
        guess: The word.
        bits: Information, 0 to log2(num_candidates).
        expected_remaining: Mean size of the class that holds the secret, 1 to num_candidates.
        largest_class: Candidates left in the worst case, 1 to num_candidates.
    """

    guess: str
    bits: float
    expected_remaining: float
    largest_class: int


class Solver:
    """The solver of one word list. Everything is exact but best play and regret, which come from a beam search.

    Candidate sets are sorted arrays of distinct answer indices, as `candidates` and `narrow` return them. A guess can
    be any word of the right length; one outside the list is scored on the fly.

    Args:
        words: The word list.
        cache_dir: Directory for the matrix and trees. None: `user_cache_dir()/solver`.
        use_cache: Whether to read and write that directory.
    """

    def __init__(self, words: WordList, *, cache_dir: Path | None = None, use_cache: bool = True):
        self.words = words
        self._cache_dir = (cache_dir or user_cache_dir() / "solver") if use_cache else None
        self._searches: dict[int, Search] = {}
        self._trees: dict[tuple[str | None, int, int], Tree] = {}
        self._best_bits: dict[bytes, float] = {}

    # --- the matrix -------------------------------------------------------------------------------------------

    @property
    def matrix(self) -> Codes:
        """Codes of each guess against each answer, shape (num_guesses, num_answers); built or loaded on first use."""
        return self._by_answer.T

    @cached_property
    def _by_answer(self) -> Codes:
        # One row per answer, (num_answers, num_guesses), so that a set of candidates is a set of whole rows.
        words = self.words
        path, label = self._cache_file("matrix", "npy")
        if path is not None:
            shape = (len(words.answers), len(words.guesses))
            if (cached := load_codes(path, label, shape, code_dtype(words.word_length))) is not None:
                return cached
        built = marks_matrix(words.guesses, words.answers).T
        built.setflags(write=False)  # like a loaded one
        if path is not None:
            save_codes(path, label, built)
        return built

    def _cache_file(self, what: str, suffix: str) -> tuple[Path | None, str]:
        label = f"{what} {self.words.fingerprint}"
        if self._cache_dir is None:
            return None, label
        return self._cache_dir / f"{what}-{self.words.fingerprint[:16]}.{suffix}", label

    @cached_property
    def _guess_of_answer(self) -> npt.NDArray[np.intp]:
        return np.array([self.words.guess_index[answer] for answer in self.words.answers], dtype=np.intp)

    @property
    def _all_green(self) -> int:
        """The code of a hit."""
        return int(3**self.words.word_length - 1)

    @cached_property
    def _log_table(self) -> Int64s:
        return log_table(len(self.words.answers) + 1)  # one to spare: a lookup of size + 1 may carry weight 0

    def _search(self, beam: int = DEFAULT_BEAM) -> Search:
        search = self._searches.get(beam)
        if search is None:
            search = self._searches[beam] = Search(self._by_answer, self._guess_of_answer, self._all_green, beam)
        search.trim()
        return search

    def forget(self) -> None:
        """Drop all remembered values and trees; the matrix and the cache files stay."""
        self._searches.clear()
        self._trees.clear()
        self._best_bits.clear()
        vars(self).pop("_quick_regret", None)

    # --- candidates -------------------------------------------------------------------------------------------

    def candidates(self, turns: Sequence[tuple[str, str]]) -> Candidates:
        """Return the answers that fit all turns.

        Args:
            turns: Pairs (guess, marks), in any order.

        Returns:
            Sorted answer indices, shape (n,), int32.

        Raises:
            SolverError: If a guess or marks have the wrong length.
        """
        remaining: Candidates = np.arange(len(self.words.answers), dtype=np.int32)
        for guess, marks in turns:
            remaining = self.narrow(remaining, guess, marks)
        return remaining

    def narrow(self, candidates: npt.ArrayLike, guess: str, marks: str) -> Candidates:
        """Return the candidates that fit one more turn; see `candidates`."""
        known = self._checked(candidates)
        if len(marks) != self.words.word_length:
            raise SolverError(f"marks {marks!r} have {len(marks)} characters; give {self.words.word_length}")
        left: Candidates = known[self._codes(guess, known) == encode_marks(marks)]
        return left

    def _checked(self, candidates: npt.ArrayLike) -> Candidates:
        given: npt.NDArray[Any] = np.asarray(candidates)
        if given.size == 0:
            return np.empty(0, dtype=np.int32)
        if given.ndim != 1 or given.dtype.kind not in "iu":
            raise SolverError(f"candidates are {given.dtype} of shape {given.shape}; give a 1-D array of indices")
        if given[0] < 0 or given[-1] >= len(self.words.answers) or not (given[1:] > given[:-1]).all():
            raise SolverError(
                f"candidates must rise strictly within 0..{len(self.words.answers) - 1}; sort them and drop repeats"
            )
        return given.astype(np.int32, copy=False)

    def _codes(self, guess: str, candidates: Candidates) -> Codes:
        index = self.words.guess_index.get(guess)
        if index is not None:
            codes: Codes = self._by_answer[candidates, index]
            return codes
        if len(guess) != self.words.word_length:
            raise SolverError(f"guess {guess!r} has {len(guess)} letters; this list has {self.words.word_length}")
        if len(candidates) == 0:
            return np.empty(0, dtype=np.uint8)
        scored: Codes = marks_matrix((guess,), [self.words.answers[i] for i in candidates])[0]
        return scored

    # --- information ------------------------------------------------------------------------------------------

    def information(self, candidates: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the information of every guess about the secret, in bits.

        Args:
            candidates: The possible secrets, equally likely.

        Returns:
            Shape (num_guesses,), each 0 to log2(n); zeros if there is no candidate.
        """
        known = self._checked(candidates)
        if len(known) == 0:
            return np.zeros(len(self.words.guesses))
        return bits_from_log_sum(sum_logs(self._by_answer[known], self._log_table), len(known))

    def information_of(self, guess: str, candidates: npt.ArrayLike) -> float:
        """Return the information of one guess in bits, 0 to log2(n)."""
        known = self._checked(candidates)
        if len(known) == 0:
            return 0.0
        log_sum = int(self._log_table[class_sizes(self._codes(guess, known))].sum())
        return float(bits_from_log_sum(log_sum, len(known)))

    def best_information(self, candidates: npt.ArrayLike) -> float:
        """Return the maximum of `information`, in bits; remembered per set."""
        known = self._checked(candidates)
        if len(known) <= 2:
            return float(len(known) == 2)  # either of two candidates separates them: one bit
        key = known.tobytes()
        bits = self._best_bits.get(key)
        if bits is None:
            if len(self._best_bits) >= _MEMO_LIMIT:
                self._best_bits.clear()
            bits = self._best_bits[key] = float(bits_from_log_sum(self._least_log_sum(known), len(known)))
        return bits

    def _least_log_sum(self, candidates: Candidates) -> int:
        # Try the candidates themselves first: one of a few often separates all of them, and nothing beats a sum of 0.
        if len(candidates) <= _SELF_CHECK_LIMIT:
            of_answer = self._guess_of_answer[candidates]
            if most_telling_candidate(self._by_answer, of_answer, candidates)[1] == len(candidates):
                return 0
        return least_log_sum(self._by_answer[candidates], self._log_table)

    def expected_remaining(self, candidates: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the mean number of candidates left after each guess, with the secret: sum(c^2)/n over class sizes c.

        Returns:
            Shape (num_guesses,), each 1 to n; zeros if there is no candidate.
        """
        known = self._checked(candidates)
        if len(known) == 0:
            return np.zeros(len(self.words.guesses))
        return 1.0 + 2.0 * count_split(self._by_answer[known]).num_pairs / len(known)

    def best_openers(self, n: int = 10) -> list[ScoredGuess]:
        """Return the n openers with the most information; ties are alphabetical."""
        return self._scored_openers[:n]

    @cached_property
    def _scored_openers(self) -> list[ScoredGuess]:
        everything = self.candidates([])
        bits, remaining = self.information(everything), self.expected_remaining(everything)
        largest = largest_classes(self._by_answer)
        order = np.argsort(-bits, kind="stable")
        figures = zip(
            order.tolist(), bits[order].tolist(), remaining[order].tolist(), largest[order].tolist(), strict=True
        )
        return [ScoredGuess(self.words.guesses[place], *figures_of) for place, *figures_of in figures]

    # --- best play --------------------------------------------------------------------------------------------

    def value(self, candidates: npt.ArrayLike, turns_left: int | None = None) -> float:
        """Return the expected number of guesses that the best known play still needs.

        Args:
            candidates: The possible secrets, equally likely.
            turns_left: Guesses left, at least 1. None: no cap. Under a cap, play first finds as many secrets as
                possible, and one that is not found counts turns_left + 1.

        Returns:
            At least 1, or 0 if there is no candidate. At worst slightly above the optimum, see `search`.

        Raises:
            SolverError: If turns_left is below 1, or the candidates are not sorted, distinct indices.
        """
        known, turns = self._checked(candidates), _checked_turns(turns_left)
        if len(known) == 0:
            return 0.0
        return guesses_in(self._search().plan(known, turns).cost) / len(known)

    def guess_value(self, guess: str, candidates: npt.ArrayLike, turns_left: int | None = None) -> float:
        """Return the expected number of guesses if this guess is played now; otherwise as `value`."""
        known, turns = self._checked(candidates), _checked_turns(turns_left)
        codes = self._codes(guess, known)
        if len(known) == 0:
            return 0.0
        return guesses_in(self._search().cost_of(known, codes, turns).cost) / len(known)

    def regret(self, guess: str, candidates: npt.ArrayLike, turns_left: int | None = None) -> float:
        """Return the expected number of guesses that this guess gives away against the best known play.

        Without a cap, a guess without information costs exactly 1. With a cap, a guess that loses one more secret but
        finds the others sooner can have no regret, since a loss counts turns_left + 1. It is 0 if no candidate is left.
        """
        spent = self.guess_value(guess, candidates, turns_left)
        # A guess outside the beam can be better than the best one found; then it is the best known.
        return spent - min(self.value(candidates, turns_left), spent)

    def quick_regret(self, guess: str, candidates: npt.ArrayLike) -> float:
        """Approximate `regret` by looking one guess ahead: a millisecond for a new set, then microseconds.

        A class that a guess leaves is assumed to need what a set of its size needs on average (`typical_guesses`).

        Returns:
            Expected guesses given away against the best listed guess, at least 0. If one candidate is left, it is 0 for
            that word and 1 for all others; if none is left, 0.
        """
        known = self._checked(candidates)
        if len(known) == 0:
            return 0.0
        return self._quick_regret(known, self._codes(guess, known))

    def quick_regrets(self, candidates: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return `quick_regret` of every listed guess, shape (num_guesses,); zeros if there is no candidate."""
        known = self._checked(candidates)
        return self._quick_regret.of_all(known) if len(known) else np.zeros(len(self.words.guesses))

    @cached_property
    def _quick_regret(self) -> QuickRegret:
        return QuickRegret(self._by_answer, self._guess_of_answer, self._all_green)

    def best_guess(self, candidates: npt.ArrayLike, turns_left: int | None = None) -> str:
        """Return the first guess of the best known play; its regret is 0.

        Raises:
            SolverError: If there is no candidate; otherwise as `value`.
        """
        known, turns = self._checked(candidates), _checked_turns(turns_left)
        if len(known) == 0:
            raise SolverError("no answer fits the turns, so there is no best guess; check the marks")
        return self.words.guesses[self._search().plan(known, turns).guess]

    def tree(self, opener: str | None = None, *, max_turns: int = 6, beam: int = DEFAULT_BEAM) -> Tree:
        """Return a plan for every secret, from the cache if possible.

        Args:
            opener: First guess, from the list. None: the best that the search finds.
            max_turns: Turn cap, at least 1. `Tree.num_failed` counts secrets that are not found within it.
            beam: Guesses to try per set of candidates, at least 1; more are slower and never much worse.

        Raises:
            SolverError: If the opener is not listed, or a number is below 1.
        """
        if opener is not None and opener not in self.words.guess_index:
            raise SolverError(f"opener {opener!r} is not in the word list; choose a listed word")
        if max_turns < 1 or beam < 1:
            raise SolverError(f"max_turns={max_turns} and beam={beam} must both be at least 1")
        key = (opener, max_turns, beam)
        if key not in self._trees:
            self._trees[key] = self._load_or_grow_tree(*key)
        return self._trees[key]

    def _load_or_grow_tree(self, opener: str | None, max_turns: int, beam: int) -> Tree:
        path, label = self._cache_file(f"tree-{opener or 'BEST'}-{max_turns}-{beam}", "tree")
        if path is not None and (content := read_sealed(path, label)) is not None:
            return tree_from_json(content)
        tree = grow_tree(self._search(beam), self.words, opener, max_turns)
        if path is not None:
            write_sealed(path, label, [tree_to_json(tree)])
        return tree


def _checked_turns(turns_left: int | None) -> int:
    if turns_left is None:
        return UNCAPPED
    if turns_left < 1:
        raise SolverError(f"turns_left is {turns_left}; give at least 1, or None for no cap")
    return turns_left
