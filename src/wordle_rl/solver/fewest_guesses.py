"""Fewest guesses still needed: a beam search over guesses with lower bounds, which remembers every solved set.

Costs are total guesses over the candidates. For k candidates and enough turns:

- No plan beats 2k - 1: one candidate at the first guess, all others at the second.
- A candidate that separates all candidates reaches 2k - 1. If there is none, no plan beats 2k, and a candidate that
  leaves a single pair together reaches that.
- A guess with p classes needs at least 3k - p - hit, where hit is 1 if it is a candidate itself.

Otherwise the search ranks all guesses and tries the best `beam` of them. It drops a guess as soon as its classes
together cannot beat the best plan so far. Leaving guesses out is the only approximation.

With a turn cap, a secret not found within t turns counts t + 1 guesses and one failure, and a failure outweighs any
number of guesses. So play solves as many secrets as possible, then uses as few guesses as possible.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wordle_rl.solver.matrix import Codes
from wordle_rl.solver.partition import SplitCounts, count_split
from wordle_rl.words import WordList

Candidates = npt.NDArray[np.int32]

FAILURE = 1 << 40  # larger than any total of guesses
UNCAPPED = 1 << 20
NO_BOUND = 1 << 62
MEMO_LIMIT = 200_000  # sets of candidates that a memory holds before it forgets them all
_SMALL_SPLIT = 128  # candidates whose split is found again as fast as it is remembered
_MAX_SPLITS = 64  # of 0.2 MB each
_SELF_CHECK_LIMIT = 64  # in larger sets no candidate separates all others in practice, so do not look


class Plan(NamedTuple):
    """A plan for a set of candidates or, if not `exact`, only a lower bound on its cost."""

    cost: int  # total guesses, plus FAILURE per secret not found
    depth: int  # most guesses for any secret
    guess: int  # index of the first guess
    exact: bool = True


def split_classes(candidates: Candidates, codes: Codes, all_green: int) -> tuple[list[Candidates], bool]:
    """Split sorted candidates by a guess's codes: the classes but the hit, smallest first; whether there is a hit."""
    order = np.argsort(codes, kind="stable")
    in_order = codes[order]
    cuts = [0, *(np.flatnonzero(in_order[1:] != in_order[:-1]) + 1).tolist(), len(order)]
    hit = bool(in_order[-1] == all_green)
    if hit:
        cuts.pop()
    members = candidates[order]
    classes = [members[begin:end] for begin, end in pairwise(cuts)]
    classes.sort(key=len)
    return classes, hit


class Search:
    """The search over one matrix, with its memory.

    Args:
        by_answer: Codes, shape (num_answers, num_guesses), C order.
        guess_of_answer: Index of each answer among the guesses, shape (num_answers,).
        all_green: The code of a hit.
        beam: Guesses to try per set of candidates.
    """

    def __init__(self, by_answer: Codes, guess_of_answer: npt.NDArray[np.intp], all_green: int, beam: int):
        self.by_answer = by_answer
        self.guess_of_answer = guess_of_answer
        self.all_green = all_green
        self.beam = beam
        self._free: dict[bytes, Plan] = {}
        self._capped: dict[tuple[bytes, int], Plan] = {}
        self._large_split = lru_cache(_MAX_SPLITS)(lambda key: count_split(by_answer[np.frombuffer(key, np.int32)]))

    def trim(self) -> None:
        """Forget everything once the memory holds too many sets; never within a search, which relies on it."""
        if len(self._free) + len(self._capped) > MEMO_LIMIT:
            self._free.clear()
            self._capped.clear()

    def plan(self, candidates: Candidates, turns: int = UNCAPPED, bound: int = NO_BOUND) -> Plan:
        """Find the cheapest plan for sorted candidates, at least one. It is exact if it costs less than `bound`."""
        num = len(candidates)
        if turns <= 1 or num <= 2:
            return self._short_plan(candidates, turns)
        key = candidates.tobytes()
        if turns == 2:
            if (key, turns) not in self._capped:
                self._capped[key, turns] = self._two_turns(candidates)
            return self._capped[key, turns]
        # A plan without a cap that fits into the turns is also the best one with a cap, and many caps share it.
        free = self._free.get(key)
        if free is None or not (free.exact or free.cost >= bound):
            free = self._free[key] = self._expand(candidates, UNCAPPED, bound)
        if turns >= UNCAPPED or free.depth <= turns:
            return free
        capped = self._capped.get((key, turns))
        if capped is None or not (capped.exact or capped.cost >= bound):
            capped = self._capped[key, turns] = self._expand(candidates, turns, bound)
        return capped

    def cost_of(self, candidates: Candidates, codes: Codes, turns: int = UNCAPPED, bound: int = NO_BOUND) -> Plan:
        """Return the cost of the guess with these codes, then the best known play; the caller fills in `guess`."""
        classes, hit = split_classes(candidates, codes, self.all_green)
        num, turns_after = len(candidates), turns - 1 if turns < UNCAPPED else UNCAPPED
        cost = 3 * num - len(classes) - 2 * hit  # each class of k at its lower bound, 2k - 1
        depth = 1 if hit else 0
        for members in reversed(classes):  # the largest can add most, so a hopeless guess ends early
            if cost >= bound:
                return Plan(cost, 0, -1, exact=False)
            floor = 2 * len(members) - 1
            rest = self.plan(members, turns_after, bound - cost + floor)
            cost += rest.cost - floor
            if not rest.exact:
                return Plan(cost, 0, -1, exact=False)
            depth = max(depth, 1 + rest.depth)
        return Plan(cost, depth, -1, exact=cost < bound)

    def _expand(self, candidates: Candidates, turns: int, bound: int) -> Plan:
        # For three or more candidates and three or more turns.
        num = len(candidates)
        if num <= _SELF_CHECK_LIMIT:
            guess, num_classes = most_telling_candidate(self.by_answer, self.guess_of_answer[candidates], candidates)
            if num_classes == num:
                return Plan(2 * num - 1, 2, guess)
            if num_classes == num - 1:
                return Plan(2 * num, 3, guess)
            if 2 * num >= bound:
                return Plan(2 * num, 0, -1, exact=False)
        split = self._split(candidates)
        if num <= _SELF_CHECK_LIMIT and split.num_classes.max() == num:
            return Plan(2 * num, 2, int(split.num_classes.argmax()))  # no candidate, or it would have been found above
        if turns >= UNCAPPED:
            # 2*sum(c^2) = 2*(n + 2*pairs) penalises large classes, and n*(3n - classes - hit) is the lower bound of the
            # guess. What all guesses have in common is left out.
            rank = 4 * split.num_pairs - num * split.num_classes
            rank[self.guess_of_answer[candidates]] -= num
        else:
            # The cap binds. With two turns, the number of classes is the number of secrets found, so rank by classes,
            # then by pairs. On lists of three and four letters this beats the rank above with a beam twice as wide.
            rank = split.num_pairs - num * num * split.num_classes
        # The bound must not influence the beam, or a value would depend on earlier questions.
        useful = np.flatnonzero(split.num_classes > 1)  # any candidate is
        ranked = first_by_rank(useful, rank, self.beam)
        floor = 2 * num if num <= _SELF_CHECK_LIMIT else 2 * num - 1
        best = Plan(bound, 0, -1, exact=False)
        for guess in ranked:
            tried = self.cost_of(candidates, self.by_answer[candidates, guess], turns, best.cost)
            if tried.exact:
                best = tried._replace(guess=guess)
                if best.cost <= floor:  # nothing can be cheaper
                    break
        return best

    def _split(self, candidates: Candidates) -> SplitCounts:
        # A board that loses turns without learning anything asks for the same large split under one cap after another.
        if len(candidates) <= _SMALL_SPLIT:
            return count_split(self.by_answer[candidates])
        return self._large_split(candidates.tobytes())

    def _short_plan(self, candidates: Candidates, turns: int) -> Plan:
        # One or two candidates, or at most one turn: formulas instead of a search.
        num = len(candidates)
        if turns <= 0:
            return Plan(num + num * FAILURE, 0, -1)
        first = int(self.guess_of_answer[candidates[0]])
        if num == 1:
            return Plan(1, 1, first)
        if turns == 1:
            return Plan(1 + (num - 1) * (2 + FAILURE), 1, first)
        return Plan(3, 2, first)

    def _two_turns(self, candidates: Candidates) -> Plan:
        # Three or more candidates, two turns. Each class but the hit yields one secret at the second turn; all others
        # fail and count 3.
        num = len(candidates)
        if num <= _SELF_CHECK_LIMIT:
            guess, most = most_telling_candidate(self.by_answer, self.guess_of_answer[candidates], candidates)
            if most == num:  # the first of the best guesses, since answers and guesses are in the same order
                return Plan(2 * num - 1, 2, guess)
        num_classes = self._split(candidates).num_classes
        is_candidate = np.zeros(self.by_answer.shape[1], dtype=np.bool_)
        is_candidate[self.guess_of_answer[candidates]] = True
        guess = int((2 * num_classes + is_candidate).argmax())
        found = int(num_classes[guess])
        return Plan(3 * num - found - int(is_candidate[guess]) + (num - found) * FAILURE, 2, guess)


def most_telling_candidate(by_answer: Codes, guesses: npt.NDArray[np.intp], candidates: Candidates) -> tuple[int, int]:
    """Return the candidate, as a guess, that splits the candidates into the most classes, and their number.

    `guesses` and `candidates` are the same words as indices among the guesses and among the answers, shape (n,).
    """
    codes = np.sort(by_answer[candidates[:, None], guesses], axis=0)  # (n secrets, n guesses)
    num_classes = 1 + np.count_nonzero(codes[1:] != codes[:-1], axis=0)
    best = int(num_classes.argmax())
    return int(guesses[best]), int(num_classes[best])


def first_by_rank(guesses: npt.NDArray[np.intp], rank: npt.NDArray[np.int64], count: int) -> list[int]:
    """Return the `count` guesses of lowest rank, ties by index; `rank` has shape (num_guesses,)."""
    keys = rank[guesses] * len(rank) + guesses  # unique keys, so that ties are not random
    if len(keys) > count:
        keys = np.partition(keys, count - 1)[:count]
    return [int(key) % len(rank) for key in np.sort(keys)]


@dataclass(frozen=True)
class Tree:
    """A plan for every secret of a list.

    Attributes:
        opener: First guess.
        max_turns: Turn cap of the plan.
        paths: Guesses for each secret, in order. A path ends with its secret if the plan finds it; otherwise it has
            `max_turns` guesses.
    """

    opener: str
    max_turns: int
    paths: Mapping[str, tuple[str, ...]] = field(repr=False)

    @property
    def num_failed(self) -> int:
        """Number of secrets that the plan does not find within the cap."""
        return sum(path[-1] != secret for secret, path in self.paths.items())

    @property
    def total_guesses(self) -> int:
        """Total guesses over all secrets; a secret not found counts max_turns + 1."""
        return sum(len(path) for path in self.paths.values()) + self.num_failed

    def summary(self) -> dict[str, object]:
        """Return the figures without the paths, ready for JSON; `distribution` counts secrets found at turn 1, 2, …"""
        found = Counter(len(path) for secret, path in self.paths.items() if path[-1] == secret)
        return {
            "opener": self.opener,
            "total_guesses": self.total_guesses,
            "mean_guesses": self.total_guesses / len(self.paths),
            "num_secrets": len(self.paths),
            "num_solved": len(self.paths) - self.num_failed,
            "num_failed": self.num_failed,
            "max_depth": max(len(path) for path in self.paths.values()),
            "max_turns": self.max_turns,
            "distribution": [found[turn] for turn in range(1, self.max_turns + 1)],
        }


def grow_tree(search: Search, words: WordList, opener: str | None, max_turns: int) -> Tree:
    """Build the tree of the plan that a search finds, from an opener or from the best that it finds."""
    everything = np.arange(len(words.answers), dtype=np.int32)
    if opener is None:
        opener = words.guesses[search.plan(everything, max_turns).guess]
    found = dict(_grow(search, words, everything, words.guess_index[opener], (), max_turns))
    return Tree(opener, max_turns, {secret: found[secret] for secret in words.answers})


def _grow(
    search: Search, words: WordList, candidates: Candidates, guess: int, played: tuple[str, ...], turns: int
) -> Iterator[tuple[str, tuple[str, ...]]]:
    played = (*played, words.guesses[guess])
    classes, hit = split_classes(candidates, search.by_answer[candidates, guess], search.all_green)
    if hit:
        yield played[-1], played
    for members in classes:
        if turns == 1:
            yield from ((words.answers[member], played) for member in members)
        else:
            next_guess = search.plan(members, turns - 1).guess
            yield from _grow(search, words, members, next_guess, played, turns - 1)
