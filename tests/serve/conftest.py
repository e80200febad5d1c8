import pytest

from wordle_rl.solver import Solver


@pytest.fixture(scope="session")
def small_solver(small_words) -> Solver:
    return Solver(small_words)
