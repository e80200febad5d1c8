import pytest

from wordle_rl.solver import Solver
from wordle_rl.words import load_words


@pytest.fixture(scope="session")
def default_solver() -> Solver:
    return Solver(load_words("default"))
