"""Time of a whole tree, and of single questions after its opener.

    python benchmarks/tree.py [--words original] [--opener salet] [--repeats 5] [--json]

The questions are those of evaluation and of the information reward: for every class the opener leaves, one guess is
asked about on a solver that has forgotten everything but the matrix.
"""

import argparse

import numpy as np
from measure import Timing, show, time_job

from wordle_rl.game import score_guess
from wordle_rl.solver import Solver, Tree
from wordle_rl.words import WordList, load_words


def main() -> None:
    """Time the jobs and print them."""
    parser = argparse.ArgumentParser(description="Time the solver's tree and its questions.")
    parser.add_argument("--words", default="default", help="word list: default, original, nyt or a directory")
    parser.add_argument("--opener", default="salet", help="first guess, a listed word")
    parser.add_argument("--repeats", type=int, default=5, help="runs per job; the median is shown")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    words = load_words(options.words)
    timings = [
        *time_trees(words, options.opener, options.repeats),
        *time_questions(words, options.opener, options.repeats),
    ]
    show(f"Solver, {words.name} list, opener {options.opener}", timings, as_json=options.json)


def time_trees(words: WordList, opener: str, repeats: int) -> list[Timing]:
    """Trees from one opener, and from the best."""

    def from_nothing() -> str:
        return describe(Solver(words).tree(opener))

    def any_opener() -> str:
        return describe(Solver(words).tree())

    return [
        time_job("matrix and tree", from_nothing, repeats),
        time_job("matrix and tree, best opener", any_opener, repeats),
    ]


def time_questions(words: WordList, opener: str, repeats: int) -> list[Timing]:
    """Each kind of question once per class that the opener leaves."""
    solver = Solver(words)
    everything = solver.candidates([])
    classes = sorted({score_guess(secret, opener) for secret in words.answers})
    states = [solver.narrow(everything, opener, marks) for marks in classes]
    guesses = [str(guess) for guess in np.random.default_rng(0).choice(words.guesses, len(states))]
    mean_size = sum(map(len, states)) / len(states)
    about = f"{len(states)} sets of {mean_size:.1f} words on average"

    def information() -> str:
        solver = Solver(words)
        told = sum(
            solver.information_of(g, s) / max(solver.best_information(s), 1)
            for g, s in zip(guesses, states, strict=True)
        )
        return f"{about}, mean share of best {told / len(states):.4f}"

    def regret() -> str:
        solver = Solver(words)
        lost = sum(solver.regret(g, s) for g, s in zip(guesses, states, strict=True))
        return f"{about}, mean regret {lost / len(states):.4f}"

    return [
        time_job("information of a guess and best", information, repeats),
        time_job("regret of a random guess", regret, repeats),
    ]


def describe(tree: Tree) -> str:
    """The tree's figures in a few words."""
    depth = max(map(len, tree.paths.values()))
    return f"{tree.opener}: {tree.total_guesses} guesses, depth {depth}, {tree.num_failed} failed"


if __name__ == "__main__":
    main()
