"""Laws of the test by secret: it keeps its level where games of one secret are alike, and McNemar's test does not."""

import numpy as np
import numpy.typing as npt
import pytest

from wordle_rl.evaluate.stats import sign_flip_exact

NUM_SECRETS, GAMES, TRIALS = 80, 8, 1500

Wins = npt.NDArray[np.int64]


def equal_players(spread: float, shared: float, rng: np.random.Generator) -> tuple[Wins, Wins]:
    """Wins of two players who are equally good on average, shape (TRIALS, NUM_SECRETS, GAMES) each.

    A player's chance to win a secret is drawn for it: from 0.7 on the mean, further from it the larger `spread`; with
    probability `shared` both have the same chance on a secret.
    """
    shape = (TRIALS, NUM_SECRETS, 1)
    a, b = (rng.beta(0.7 / spread, 0.3 / spread, shape) for _ in range(2))
    b = np.where(rng.random(shape) < shared, a, b)
    return tuple((rng.random((*shape[:2], GAMES)) < chance).astype(int) for chance in (a, b))


def rates_of_error(spread: float, shared: float) -> tuple[float, float]:
    """Rates at which McNemar's test by game, and the test by secret, call equal players different at 5 %."""
    won_a, won_b = equal_players(spread, shared, np.random.default_rng(7))
    diffs = (won_b - won_a).reshape(TRIALS, -1)
    clusters = np.repeat(np.arange(NUM_SECRETS), GAMES)
    by_game = [sign_flip_exact(d) for d in diffs]
    by_secret = [sign_flip_exact(np.bincount(clusters, d)) for d in diffs]
    return tuple(float(np.mean(np.array(found) <= 0.05)) for found in (by_game, by_secret))


@pytest.mark.parametrize(("spread", "shared"), [(0.2, 0.0), (1.0, 0.5), (2.0, 0.0)])
def test_equal_players_are_called_different_in_five_of_a_hundred_cases(spread: float, shared: float) -> None:
    by_game, by_secret = rates_of_error(spread, shared)
    assert by_secret == pytest.approx(0.05, abs=0.017), "three standard errors of 1,500 trials"
    assert by_game > 0.10, "the games of a secret are no coins of their own"


def test_where_games_of_a_secret_are_independent_both_tests_keep_their_level() -> None:
    by_game, by_secret = rates_of_error(1e-6, 1.0)
    assert by_secret == pytest.approx(0.05, abs=0.017)
    assert by_game < 0.067
