import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from wordle_rl.evaluate.stats import (
    StatsError,
    clustered_wilson_interval,
    games_needed,
    paired_bootstrap,
    paired_score_interval,
    sign_flip_exact,
    smallest_difference,
    wilson_interval,
)

Z_95 = 1.959963984540054


# --- Wilson ---------------------------------------------------------------------------------------------------------


@given(st.integers(1, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
@example((0, 1))
@example((1, 1))
@example((2734, 2734))
def test_wilson_ends_are_exactly_z_standard_errors_from_the_rate(case: tuple[int, int]) -> None:
    wins, n = case
    for end in wilson_interval(wins, n):
        distance = abs(wins / n - end)
        on_the_edge = end in (0.0, 1.0) and distance == 0
        assert on_the_edge or distance == pytest.approx(Z_95 * math.sqrt(end * (1 - end) / n), rel=1e-6, abs=1e-9)


# --- Wilson, of games that come in clusters -------------------------------------------------------------------------

CLUSTERS = st.lists(st.integers(1, 9).flatmap(lambda m: st.tuples(st.integers(0, m), st.just(m))), min_size=1)


def test_games_of_one_secret_widen_the_interval_as_resampling_secrets_does() -> None:
    rng = np.random.default_rng(4)
    games = rng.integers(4, 12, 300)
    wins = rng.binomial(games, rng.beta(0.8, 0.5, 300))  # some secrets are found nearly always, some hardly ever
    drawn = rng.integers(0, 300, (20_000, 300))
    resampled = np.quantile(wins[drawn].sum(axis=1) / games[drawn].sum(axis=1), [0.025, 0.975])
    low, high = clustered_wilson_interval(wins.tolist(), games.tolist())
    assert (low, high) == pytest.approx(resampled, abs=0.004)
    alone = wilson_interval(int(wins.sum()), int(games.sum()))
    assert high - low > 1.7 * (alone[1] - alone[0])


@given(st.lists(st.integers(0, 1), min_size=1, max_size=60), st.integers(1, 9))
def test_games_that_only_repeat_each_other_count_once(won: list[int], times: int) -> None:
    once = wilson_interval(sum(won), len(won))
    again = clustered_wilson_interval([times * win for win in won], [times] * len(won))
    assert again == pytest.approx(once)
    assert times > 1 or again == once


@given(CLUSTERS)
def test_clusters_never_tell_more_than_their_games_nor_lose_the_rate(clusters: list[tuple[int, int]]) -> None:
    wins, games = [w for w, _ in clusters], [m for _, m in clusters]
    low, high = clustered_wilson_interval(wins, games)
    alone_low, alone_high = wilson_interval(sum(wins), sum(games))
    assert 0 <= low <= alone_low + 1e-9
    assert alone_high - 1e-9 <= high <= 1
    mirrored = clustered_wilson_interval([m - w for w, m in clusters], games)
    assert (1 - high, 1 - low) == pytest.approx(mirrored, abs=1e-9)


# --- McNemar --------------------------------------------------------------------------------------------------------


def coin_oracle(only_a: int, only_b: int) -> Fraction:
    """Every sequence of fair coins, counted one by one: how many are at least as uneven."""
    n = only_a + only_b
    uneven = sum(abs(2 * sum(coins) - n) >= abs(only_a - only_b) for coins in itertools.product((0, 1), repeat=n))
    return Fraction(uneven, 2**n)


@given(st.integers(0, 6), st.integers(0, 6))
def test_mcnemar_counts_coin_sequences(only_a: int, only_b: int) -> None:
    diffs = [-1] * only_a + [0] + [1] * only_b
    assert sign_flip_exact(diffs) == float(coin_oracle(only_a, only_b))


# --- Tango ----------------------------------------------------------------------------------------------------------


def score_oracle(only_a: int, only_b: int, n: int, difference: float) -> float:
    """Chi-squared of one difference; the shares under it are found by trying out 20,001 of them."""
    share_a = np.linspace(max(0.0, -difference), (1 - difference) / 2, 20_001)
    shares = np.stack([share_a, share_a + difference, 1 - 2 * share_a - difference])
    counts = np.array([[only_a], [only_b], [n - only_a - only_b]])
    logs = np.log(np.clip(shares, 1e-300, None))
    likeliest = share_a[np.argmax((counts * logs).sum(axis=0))]
    variance = (2 * likeliest + difference - difference**2) / n
    return float(((only_b - only_a) / n - difference) ** 2 / variance)


@pytest.mark.parametrize("case", [(3, 0, 3), (0, 0, 100), (1, 0, 44), (5, 12, 40), (11, 36, 300), (36, 11, 700)])
def test_the_ends_are_the_differences_that_the_score_just_does_not_rule_out(case: tuple[int, int, int]) -> None:
    mean, low, high = paired_score_interval(*case)
    assert -1 <= low <= mean <= high <= 1
    for end in (low, high):
        assert abs(end) == 1 or score_oracle(*case, end) == pytest.approx(Z_95**2, rel=1e-3)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 400))
@example(0, 0, 1)
def test_no_difference_is_ruled_out_just_where_mcnemars_chi_squared_rules_it_out(
    only_a: int, only_b: int, others: int
) -> None:
    num_pairs = max(1, only_a + only_b + others)
    mean, low, high = paired_score_interval(only_a, only_b, num_pairs)
    chi_squared = (only_a - only_b) ** 2 / max(1, only_a + only_b)
    assert (low <= 0 <= high) == (chi_squared <= Z_95**2)
    assert mean == (only_b - only_a) / num_pairs
    assert paired_score_interval(only_b, only_a, num_pairs) == (-mean, -high, -low)


# --- sign flips -----------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(-6, 6), max_size=9))
def test_sign_flips_are_all_counted(diffs: list[int]) -> None:
    flipped = [sum(signs) for signs in itertools.product(*((d, -d) for d in diffs))]
    uneven = sum(abs(total) >= abs(sum(diffs)) for total in flipped)
    assert sign_flip_exact(diffs) == pytest.approx(uneven / len(flipped))


# --- bootstrap ------------------------------------------------------------------------------------------------------


def slow_bootstrap(diffs: list[float], num_resamples: int, seed: int) -> tuple[float, float]:
    """Draw pairs one resample at a time."""
    rng = np.random.default_rng(seed)
    values = np.array(diffs)
    means = [rng.choice(values, len(values)).mean() for _ in range(num_resamples)]
    return float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


@pytest.mark.parametrize(
    "diffs",
    [
        [1.0] * 30 + [0.0] * 160 + [-1.0] * 10,
        list(np.random.default_rng(3).normal(0.3, 2.0, 150)),
        [0.0, 0.0, 3.0],
    ],
)
def test_bootstrap_agrees_with_drawing_the_pairs_one_by_one(diffs: list[float]) -> None:
    mean, low, high = paired_bootstrap(diffs, range(len(diffs)))
    slow_low, slow_high = slow_bootstrap(diffs, 8000, seed=11)
    slack = 0.15 * (slow_high - slow_low)
    assert mean == pytest.approx(sum(diffs) / len(diffs))
    assert low == pytest.approx(slow_low, abs=slack)
    assert high == pytest.approx(slow_high, abs=slack)


def test_copies_of_a_pair_tell_nothing_new() -> None:
    diffs = [1.0] * 12 + [0.0] * 40 + [-1.0] * 7
    alone = paired_bootstrap(diffs, range(len(diffs)))
    assert paired_bootstrap(diffs * 8, list(range(len(diffs))) * 8) == pytest.approx(alone)
    mean, low, high = paired_bootstrap(diffs * 8, range(8 * len(diffs)))
    assert alone.low < low < mean < high < alone.high, "as if the copies were pairs of their own"


# --- power ----------------------------------------------------------------------------------------------------------


def test_the_games_needed_are_those_of_published_tables() -> None:
    # Fleiss, without continuity correction: 2 p q = 0.455, p_a q_a + p_b q_b = 0.45, d = 0.1
    assert games_needed(0.6, 0.7) == games_needed(0.7, 0.6) == 356
    assert games_needed(0.1, 0.2) == 199


@given(st.floats(0.0, 0.99), st.integers(10, 5000))
def test_the_smallest_difference_needs_the_games_there_are(rate: float, num_games: int) -> None:
    rise = smallest_difference(rate, num_games)
    if rise is None:
        assert games_needed(rate, 1.0) > num_games or rate > 0.98
    else:
        assert games_needed(rate, rate + rise) <= num_games


@pytest.mark.parametrize("rates", [(0.5, 0.5), (-0.1, 0.5), (0.5, 1.1)])
def test_rates_that_no_games_tell_apart_are_refused(rates: tuple[float, float]) -> None:
    with pytest.raises(StatsError):
        games_needed(*rates)
