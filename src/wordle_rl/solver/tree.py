"""A whole plan as a value: the guesses to each secret."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

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
