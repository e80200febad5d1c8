"""A whole plan as a value: the guess after each sequence of marks, and the guesses to each secret."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from wordle_rl.game import score_guess
from wordle_rl.solver.matrix import SolverError
from wordle_rl.solver.search import Candidates, Search, split_classes
from wordle_rl.words import WordList


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

    def path(self, secret: str) -> tuple[str, ...]:
        """Return the guesses played for a secret.

        Raises:
            SolverError: If the secret is not in the list.
        """
        if secret not in self.paths:
            raise SolverError(f"{secret!r} is not one of the {len(self.paths)} secrets of the tree; check the list")
        return self.paths[secret]

    def best(self, history: Sequence[str | tuple[str, str]]) -> str:
        """Return the guess to play next.

        Args:
            history: One entry per turn so far: the marks, or a pair (guess, marks).

        Raises:
            SolverError: If a guess is not that of the tree, no secret gives these marks, or the game is over.
        """
        marks: tuple[str, ...] = ()
        for entry in history:
            planned = self._decision(marks)
            guess, seen = (planned, entry) if isinstance(entry, str) else entry
            if guess != planned:
                raise SolverError(
                    f"turn {len(marks) + 1} played {guess!r} where the tree plays {planned!r}; ask Solver.best_guess"
                )
            marks = (*marks, seen)
        return self._decision(marks)

    def _decision(self, marks: tuple[str, ...]) -> str:
        guess = self._decisions.get(marks)
        if guess is None:
            raise SolverError(
                f"the tree has no guess after marks {', '.join(marks)}: game over, or no secret fits them"
            )
        return guess

    @cached_property
    def _decisions(self) -> dict[tuple[str, ...], str]:
        decisions: dict[tuple[str, ...], str] = {}
        for secret, path in self.paths.items():
            marks: tuple[str, ...] = ()
            for guess in path:
                decisions[marks] = guess
                marks = (*marks, score_guess(secret, guess))
        return decisions

    @cached_property
    def num_failed(self) -> int:
        """Number of secrets that the plan does not find within the cap."""
        return sum(path[-1] != secret for secret, path in self.paths.items())

    @property
    def num_solved(self) -> int:
        """Number of secrets that the plan finds within the cap."""
        return len(self.paths) - self.num_failed

    @cached_property
    def total_guesses(self) -> int:
        """Total guesses over all secrets; a secret not found counts max_turns + 1."""
        return sum(len(path) + (path[-1] != secret) for secret, path in self.paths.items())

    @property
    def mean_guesses(self) -> float:
        """Mean guesses per secret; a secret not found counts max_turns + 1."""
        return self.total_guesses / len(self.paths)

    @cached_property
    def max_depth(self) -> int:
        """Most guesses for any secret, at most max_turns."""
        return max(len(path) for path in self.paths.values())

    @cached_property
    def distribution(self) -> tuple[int, ...]:
        """Number of secrets found at turn 1, 2, ..., max_turns; sums to num_solved."""
        counts = [0] * self.max_turns
        for secret, path in self.paths.items():
            if path[-1] == secret:
                counts[len(path) - 1] += 1
        return tuple(counts)

    def summary(self) -> dict[str, object]:
        """Return the figures without the paths, ready for JSON."""
        return {
            "opener": self.opener,
            "total_guesses": self.total_guesses,
            "mean_guesses": self.mean_guesses,
            "num_secrets": len(self.paths),
            "num_solved": self.num_solved,
            "num_failed": self.num_failed,
            "max_depth": self.max_depth,
            "max_turns": self.max_turns,
            "distribution": list(self.distribution),
        }


def grow_tree(search: Search, words: WordList, opener: str | None, max_turns: int) -> Tree:
    """Build the tree of the plan that a search finds.

    Args:
        search: Search over the list's matrix.
        words: The word list.
        opener: First guess, from the list. None: the best that the search finds.
        max_turns: Turn cap, at least 1.
    """
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


def tree_to_json(tree: Tree) -> bytes:
    """Serialise a tree as JSON."""
    body = {"opener": tree.opener, "max_turns": tree.max_turns, "paths": tree.paths}
    return json.dumps(body, separators=(",", ":")).encode()


def tree_from_json(content: bytes) -> Tree:
    """Parse what `tree_to_json` wrote; the seal of the file has already been checked."""
    body = json.loads(content)
    paths = {secret: tuple(path) for secret, path in body["paths"].items()}
    return Tree(body["opener"], body["max_turns"], paths)
