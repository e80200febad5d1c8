"""Boards to ask the solver about, shared by its tests."""

import numpy as np
import pytest

from wordle_rl.game import score_guess
from wordle_rl.solver import Solver
from wordle_rl.words import load_words


@pytest.fixture(scope="session")
def default_solver() -> Solver:
    return Solver(load_words("default"))


def some_states(solver: Solver, num_games: int = 12) -> list[tuple[str, np.ndarray]]:
    """(guess, candidates) pairs as a middling player meets them, after the opener."""
    rng = np.random.default_rng(5)
    states = []
    words = solver.words
    for secret in rng.choice(words.answers, num_games):
        candidates = solver.narrow(solver.candidates([]), "crane", score_guess(str(secret), "crane"))
        while len(candidates) > 1:
            playable = words.guesses if rng.random() < 0.5 else [words.answers[i] for i in candidates]
            guess = str(rng.choice(playable))
            states.append((guess, candidates))
            candidates = solver.narrow(candidates, guess, score_guess(str(secret), guess))
    return states
