"""Laws of the test by secret: it keeps its level where games of one secret are alike, and McNemar's test does not."""

import itertools

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordle_rl.evaluate.stats import StatsError, clustered_mcnemar, mcnemar_exact

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
    by_game = [mcnemar_exact(int((d < 0).sum()), int((d > 0).sum())) for d in diffs]
    by_secret = [clustered_mcnemar(d, clusters) for d in diffs]
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


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-1, 1)), min_size=1, max_size=14))
def test_every_flip_of_whole_secrets_is_counted(pairs: list[tuple[int, int]]) -> None:
    clusters, diffs = zip(*pairs, strict=True)
    sums = [sum(d for c, d in pairs if c == cluster) for cluster in sorted(set(clusters))]
    flips = [
        sum(s * f for s, f in zip(sums, signs, strict=True)) for signs in itertools.product((1, -1), repeat=len(sums))
    ]
    expected = sum(abs(total) >= abs(sum(sums)) for total in flips) / len(flips)
    assert clustered_mcnemar(diffs, clusters) == pytest.approx(expected)


def test_impossible_pairs_are_refused() -> None:
    with pytest.raises(StatsError, match="as many clusters"):
        clustered_mcnemar([1, 0], [0])
    with pytest.raises(StatsError, match="whole numbers"):
        clustered_mcnemar([0.5], [0])  # type: ignore[list-item]
