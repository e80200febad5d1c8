"""`Solver`: candidates, information, best play and regret for one word list; the answers that fit a board."""

import math
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wordle_rl.game import Turn, scored_pairs
from wordle_rl.solver.fewest_guesses import (
    FAILURE,
    MEMO_LIMIT,
    UNCAPPED,
    Candidates,
    Search,
    Tree,
    grow_tree,
    most_telling_candidate,
)
from wordle_rl.solver.matrix import Codes, SolverError, encode_marks, marks_matrix
from wordle_rl.solver.partition import (
    Int64s,
    bits_from_log_sum,
    class_sizes,
    count_split,
    largest_classes,
    log_table,
    sum_logs,
)
from wordle_rl.words import WordList

DEFAULT_BEAM = 10
MAX_BOARDS = 20_000  # that a cache by board keeps
_SELF_CHECK_LIMIT = 16
_GUESS = 1 << 20  # one guess in the units of quick regret: whole numbers add up to the same sum in any order


class ScoredGuess(NamedTuple):
    """A guess as an opener: its information in bits, and the mean and largest number of answers that it leaves."""

    guess: str
    bits: float
    expected_remaining: float
    largest_class: int


class Solver:
    """The solver of one word list. Everything is exact but best play and regret, which come from a beam search.

    Candidate sets are sorted arrays of distinct answer indices, as `candidates` and `narrow` return them. A guess can
    be any word of the right length; one outside the list is scored on the fly. All results are in expected guesses or
    in bits, and 0 if no candidate is left.
    """

    def __init__(self, words: WordList) -> None:
        self.words = words
        self._searches: dict[int, Search] = {}
        self._trees: dict[tuple[str | None, int, int], Tree] = {}
        self._best_bits: dict[bytes, float] = {}
        self._least_quick: dict[bytes, float] = {}

    # --- the matrix -------------------------------------------------------------------------------------------

    @property
    def matrix(self) -> Codes:
        """Codes of each guess against each answer, shape (num_guesses, num_answers); built on first use."""
        return self._by_answer.T

    @cached_property
    def _by_answer(self) -> Codes:
        # One row per answer, (num_answers, num_guesses), so that a set of candidates is a set of whole rows. Building
        # it takes about as long as reading it from a file would.
        built = marks_matrix(self.words.guesses, self.words.answers).T
        built.setflags(write=False)
        return built

    @cached_property
    def _guess_of_answer(self) -> npt.NDArray[np.intp]:
        return np.array([self.words.guess_index[answer] for answer in self.words.answers], dtype=np.intp)

    @property
    def _all_green(self) -> int:
        return int(3**self.words.word_length - 1)  # the code of a hit

    @cached_property
    def _log_table(self) -> Int64s:
        return log_table(len(self.words.answers))

    def _search(self, beam: int = DEFAULT_BEAM) -> Search:
        if beam not in self._searches:
            self._searches[beam] = Search(self._by_answer, self._guess_of_answer, self._all_green, beam)
        self._searches[beam].trim()
        return self._searches[beam]

    # --- candidates -------------------------------------------------------------------------------------------

    def candidates(self, turns: Sequence[tuple[str, str]]) -> Candidates:
        """Return the answers that fit all pairs (guess, marks), as sorted indices, shape (n,), int32."""
        remaining: Candidates = np.arange(len(self.words.answers), dtype=np.int32)
        for guess, marks in turns:
            remaining = self.narrow(remaining, guess, marks)
        return remaining

    def narrow(self, candidates: npt.ArrayLike, guess: str, marks: str) -> Candidates:
        """Return the candidates that fit one more turn."""
        known = _indices(candidates)
        if len(marks) != self.words.word_length:
            raise SolverError(f"marks {marks!r} have {len(marks)} characters; give {self.words.word_length}")
        left: Candidates = known[self._codes(guess, known) == encode_marks(marks)]
        return left

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
        """Return the bits that every guess tells about the secret, shape (num_guesses,), each 0 to log2(n)."""
        known = _indices(candidates)
        if len(known) == 0:
            return np.zeros(len(self.words.guesses))
        return bits_from_log_sum(sum_logs(self._by_answer[known], self._log_table), len(known))

    def information_of(self, guess: str, candidates: npt.ArrayLike) -> float:
        """Return the bits that one guess tells, 0 to log2(n)."""
        known = _indices(candidates)
        if len(known) == 0:
            return 0.0
        log_sum = int(self._log_table[class_sizes(self._codes(guess, known))].sum())
        return float(bits_from_log_sum(log_sum, len(known)))

    def best_information(self, candidates: npt.ArrayLike) -> float:
        """Return the maximum of `information`; remembered per set."""
        known = _indices(candidates)
        if len(known) <= 2:
            return float(len(known) == 2)  # either of two candidates separates them: one bit
        key = known.tobytes()
        if key not in self._best_bits:
            if len(self._best_bits) >= MEMO_LIMIT:
                self._best_bits.clear()
            self._best_bits[key] = float(bits_from_log_sum(self._least_log_sum(known), len(known)))
        return self._best_bits[key]

    def _least_log_sum(self, candidates: Candidates) -> int:
        # Try the candidates themselves first: one of a few often separates all of them, and nothing beats a sum of 0.
        if len(candidates) <= _SELF_CHECK_LIMIT:
            of_answer = self._guess_of_answer[candidates]
            if most_telling_candidate(self._by_answer, of_answer, candidates)[1] == len(candidates):
                return 0
        return int(sum_logs(self._by_answer[candidates], self._log_table).min())

    def best_openers(self, n: int = 10) -> list[ScoredGuess]:
        """Return the n openers with the most information; ties are alphabetical."""
        return self._scored_openers[:n]

    @cached_property
    def _scored_openers(self) -> list[ScoredGuess]:
        bits, num = self.information(self.candidates([])), len(self.words.answers)
        # A class of size c is met by c of the n secrets: sum(c^2)/n = 1 + 2*pairs/n answers are left on average.
        remaining = 1.0 + 2.0 * count_split(self._by_answer).num_pairs / num
        order = np.argsort(-bits, kind="stable")
        figures = (each[order].tolist() for each in (bits, remaining, largest_classes(self._by_answer)))
        return [ScoredGuess(self.words.guesses[guess], *of) for guess, *of in zip(order, *figures, strict=True)]

    # --- best play --------------------------------------------------------------------------------------------

    def value(self, candidates: npt.ArrayLike, turns_left: int | None = None) -> float:
        """Return the expected number of guesses that the best known play still needs.

        Under a cap of at least 1 on the turns left, play first finds as many secrets as possible, and one that is not
        found counts turns_left + 1. At worst slightly above the optimum, see `search`.
        """
        known, turns = _indices(candidates), _checked_turns(turns_left)
        if len(known) == 0:
            return 0.0
        return self._search().plan(known, turns).cost % FAILURE / len(known)

    def guess_value(self, guess: str, candidates: npt.ArrayLike, turns_left: int | None = None) -> float:
        """Return the expected number of guesses if this guess is played now; otherwise as `value`."""
        known, turns = _indices(candidates), _checked_turns(turns_left)
        codes = self._codes(guess, known)
        if len(known) == 0:
            return 0.0
        return self._search().cost_of(known, codes, turns).cost % FAILURE / len(known)

    def regret(self, guess: str, candidates: npt.ArrayLike, turns_left: int | None = None) -> float:
        """Return the expected number of guesses that this guess gives away against the best known play.

        Without a cap, a guess without information costs exactly 1. With a cap, a guess that loses one more secret but
        finds the others sooner can have no regret, since a loss counts turns_left + 1.
        """
        spent = self.guess_value(guess, candidates, turns_left)
        # A guess outside the beam can be better than the best one found; then it is the best known.
        return spent - min(self.value(candidates, turns_left), spent)

    def quick_regret(self, guess: str, candidates: npt.ArrayLike) -> float:
        """Approximate `regret` by looking one guess ahead: a millisecond for a new set, then microseconds.

        A class that a guess leaves is assumed to need what a set of its size needs on average (`typical_guesses`).
        """
        known = _indices(candidates)
        if len(known) == 0:
            return 0.0
        codes, key = self._codes(guess, known), known.tobytes()
        if key not in self._least_quick:
            if len(self._least_quick) >= MEMO_LIMIT:
                self._least_quick.clear()
            self._least_quick[key] = float(self._quick_sums(known).min() / len(known))
        hit = bool(np.any(codes == self._all_green))
        own = (int(self._quick_table[class_sizes(codes)].sum()) - hit * _GUESS) / len(known)
        return float(max(0.0, own - self._least_quick[key]) / _GUESS)

    def quick_regrets(self, candidates: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return `quick_regret` of every listed guess, shape (num_guesses,)."""
        known = _indices(candidates)
        if len(known) == 0:
            return np.zeros(len(self.words.guesses))
        sums = self._quick_sums(known)
        given_away: npt.NDArray[np.float64] = (sums - sums.min()) / (_GUESS * len(known))
        return given_away

    @cached_property
    def _quick_table(self) -> Int64s:
        # For class size c, the guesses that its members typically need beyond one each: c * (typical - 1).
        sizes = range(len(self.words.answers) + 2)
        return np.array([round(_GUESS * c * (typical_guesses(c) - 1)) for c in sizes], dtype=np.int64)

    def _quick_sums(self, candidates: Candidates) -> Int64s:
        # `sum_logs` sums any table of class sizes, shape (num_guesses,). A candidate can be the secret itself.
        sums = sum_logs(self._by_answer[candidates], self._quick_table)
        sums[self._guess_of_answer[candidates]] -= _GUESS
        return sums

    def best_guess(self, candidates: npt.ArrayLike, turns_left: int | None = None) -> str:
        """Return the first guess of the best known play; its regret is 0."""
        known, turns = _indices(candidates), _checked_turns(turns_left)
        if len(known) == 0:
            raise SolverError("no answer fits the turns, so there is no best guess; check the marks")
        return self.words.guesses[self._search().plan(known, turns).guess]

    def tree(self, opener: str | None = None, *, max_turns: int = 6, beam: int = DEFAULT_BEAM) -> Tree:
        """Return a plan for every secret; a wider beam is slower and never much worse."""
        if _checked_turns(max_turns) and beam < 1:
            raise SolverError(f"beam is {beam}; give at least 1")
        if opener is not None and opener not in self.words.guess_index:
            raise SolverError(f"opener {opener!r} is not in the word list; choose a listed word")
        key = (opener, max_turns, beam)
        if key not in self._trees:
            self._trees[key] = grow_tree(self._search(beam), self.words, opener, max_turns)
        return self._trees[key]


def _indices(candidates: npt.ArrayLike) -> Candidates:
    return np.asarray(candidates, dtype=np.int32)


def typical_guesses(num_candidates: int) -> float:
    """Return the guesses that best play typically needs for this many candidates; a curve fitted to solved sets.

    Examples:
        >>> [round(typical_guesses(n), 2) for n in (0, 1, 2, 20, 2315)]
        [1.0, 1.0, 1.5, 2.33, 3.52]
    """
    return 1.0 + 0.5 * math.pow(math.log2(max(1, num_candidates)), 0.67)


def _checked_turns(turns_left: int | None) -> int:
    if turns_left is None:
        return UNCAPPED
    if turns_left < 1:
        raise SolverError(f"turns_left is {turns_left}; give at least 1, or None for no cap")
    return turns_left


def fitting_answers(solver: Solver) -> Callable[[Sequence[Turn]], Candidates]:
    """Return a function from a board to the indices of the answers that fit it; it caches results."""

    @lru_cache(MAX_BOARDS)
    def candidates(scored: tuple[tuple[str, str], ...]) -> Candidates:
        return solver.narrow(candidates(scored[:-1]), *scored[-1]) if scored else solver.candidates(())

    return lambda board: candidates(scored_pairs(board))


def turn_regret(turn: Turn, candidates: Candidates, regret: Callable[[str, Candidates], float]) -> float:
    """Return the regret of a turn, 0 to 1; a turn without marks costs 1, like a guess without information."""
    # Regret ignores the turn limit: with it the search is several times slower, and `win` already punishes a loss.
    if turn.guess is None or turn.marks is None:
        return 1.0
    return min(1.0, max(0.0, regret(turn.guess, candidates))) if len(candidates) else 0.0
