import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from wordle_rl.stats import StatsError, mcnemar_exact, paired_bootstrap, sign_flip_exact, wilson_interval

Z_95 = 1.959963984540054


# --- Wilson ---------------------------------------------------------------------------------------------------------


def test_wilson_matches_hand_arithmetic() -> None:
    # 81 of 263, z = 1.96: centre (81 + 1.9207)/(263 + 3.8415) = 0.310757, half width 0.055338
    low, high = wilson_interval(81, 263)
    assert low == pytest.approx(0.25530, abs=2e-5)
    assert high == pytest.approx(0.36621, abs=2e-5)


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


@given(st.integers(1, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_rate_and_mirrors_losses(case: tuple[int, int]) -> None:
    wins, n = case
    low, high = wilson_interval(wins, n)
    mirrored_low, mirrored_high = wilson_interval(n - wins, n)
    assert 0 <= low <= wins / n <= high <= 1
    assert (1 - high, 1 - low) == pytest.approx((mirrored_low, mirrored_high), abs=1e-12)


def test_wilson_narrows_with_games_and_widens_with_confidence() -> None:
    def width(wins: int, n: int, confidence: float = 0.95) -> float:
        low, high = wilson_interval(wins, n, confidence)
        return high - low

    assert width(500, 1000) < width(50, 100) < width(5, 10)
    assert width(50, 100, 0.8) < width(50, 100, 0.95) < width(50, 100, 0.999)


@pytest.mark.parametrize(
    ("wins", "n", "confidence"), [(0, 0, 0.95), (-1, 5, 0.95), (6, 5, 0.95), (1, 2, 1.0), (1, 2, 0)]
)
def test_wilson_refuses_impossible_counts(wins: int, n: int, confidence: float) -> None:
    with pytest.raises(StatsError, match=r"at least 1|between 0 and 1"):
        wilson_interval(wins, n, confidence)


# --- McNemar --------------------------------------------------------------------------------------------------------


def coin_oracle(only_a: int, only_b: int) -> Fraction:
    """Every sequence of fair coins, counted one by one: how many are at least as uneven."""
    n = only_a + only_b
    uneven = sum(abs(2 * sum(coins) - n) >= abs(only_a - only_b) for coins in itertools.product((0, 1), repeat=n))
    return Fraction(uneven, 2**n)


@given(st.integers(0, 6), st.integers(0, 6))
def test_mcnemar_counts_coin_sequences(only_a: int, only_b: int) -> None:
    assert mcnemar_exact(only_a, only_b) == float(coin_oracle(only_a, only_b))


def test_mcnemar_matches_hand_arithmetic() -> None:
    # Ten games set the players apart; none, one or two of ten heads: 1 + 10 + 45 of 1,024 sequences, either way round.
    assert mcnemar_exact(2, 8) == mcnemar_exact(8, 2) == 2 * (1 + 10 + 45) / 1024
    assert mcnemar_exact(0, 0) == 1.0


@given(st.integers(0, 1500), st.integers(0, 1500))
def test_mcnemar_is_a_probability_and_knows_no_sides(only_a: int, only_b: int) -> None:
    p = mcnemar_exact(only_a, only_b)
    assert 0 <= p <= 1
    assert p == mcnemar_exact(only_b, only_a)
    assert mcnemar_exact(max(only_a, only_b) + 1, min(only_a, only_b)) <= p


def test_mcnemar_refuses_negative_counts() -> None:
    with pytest.raises(StatsError, match="negative"):
        mcnemar_exact(-1, 3)


# --- sign flips -----------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(-6, 6), max_size=9))
def test_sign_flips_are_all_counted(diffs: list[int]) -> None:
    flipped = [sum(signs) for signs in itertools.product(*((d, -d) for d in diffs))]
    uneven = sum(abs(total) >= abs(sum(diffs)) for total in flipped)
    assert sign_flip_exact(diffs) == pytest.approx(uneven / len(flipped))


@given(st.integers(0, 400), st.integers(0, 400), st.integers(0, 50))
def test_flips_of_ones_are_mcnemars_test(up: int, down: int, same: int) -> None:
    assert sign_flip_exact([1] * up + [-1] * down + [0] * same) == pytest.approx(mcnemar_exact(up, down), rel=1e-9)


def test_sign_flips_of_thousands_of_games_come_near_the_normal_curve() -> None:
    diffs = np.array([-1] * 330 + [1] * 280 + [-4] * 12 + [6] * 5 + [0] * 2107)
    z = abs(diffs.sum()) / math.sqrt((diffs**2).sum())
    assert sign_flip_exact(diffs) == pytest.approx(math.erfc(z / math.sqrt(2)), abs=0.01)
    assert sign_flip_exact(-diffs) == sign_flip_exact(diffs)


def test_sign_flips_refuse_what_is_not_whole() -> None:
    with pytest.raises(StatsError, match="whole numbers, got float64"):
        sign_flip_exact([0.5, 1.0])


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
    mean, low, high = paired_bootstrap(diffs, num_resamples=8000)
    slow_low, slow_high = slow_bootstrap(diffs, 8000, seed=11)
    slack = 0.15 * (slow_high - slow_low)
    assert mean == pytest.approx(sum(diffs) / len(diffs))
    assert low == pytest.approx(slow_low, abs=slack)
    assert high == pytest.approx(slow_high, abs=slack)


def test_bootstrap_of_three_pairs_has_the_ends_counted_by_hand() -> None:
    # The mean of three draws from {0, 0, 3} is 0, 1, 2 or 3 with chances 8/27, 12/27, 6/27, 1/27 (3.7 %).
    assert paired_bootstrap([0.0, 0.0, 3.0]) == (1.0, 0.0, 3.0)
    assert paired_bootstrap([0.0, 0.0, 3.0], confidence=0.8) == (1.0, 0.0, 2.0)


def test_bootstrap_in_chunks_keeps_its_coverage(monkeypatch: pytest.MonkeyPatch) -> None:
    diffs = [1.0] * 30 + [0.0] * 50 + [-1.0] * 10
    whole = paired_bootstrap(diffs)
    monkeypatch.setattr("wordle_rl.stats._MAX_DRAWS_AT_ONCE", 1000)
    assert paired_bootstrap(diffs) == pytest.approx(whole, abs=0.02)


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=30), st.integers(0, 5))
def test_bootstrap_is_repeatable_and_turns_with_its_sign(diffs: list[float], seed: int) -> None:
    mean, low, high = paired_bootstrap(diffs, num_resamples=300, seed=seed)
    assert (mean, low, high) == paired_bootstrap(diffs, num_resamples=300, seed=seed)
    assert min(diffs) - 1e-9 <= low <= high <= max(diffs) + 1e-9
    assert paired_bootstrap([-diff for diff in diffs], num_resamples=300, seed=seed).mean == pytest.approx(-mean)


def test_a_cluster_of_one_is_a_pair_and_copies_of_a_pair_tell_nothing_new() -> None:
    diffs = [1.0] * 12 + [0.0] * 40 + [-1.0] * 7
    alone = paired_bootstrap(diffs)
    assert paired_bootstrap(diffs, range(len(diffs))) == alone
    assert paired_bootstrap(diffs * 8, list(range(len(diffs))) * 8) == pytest.approx(alone)
    mean, low, high = paired_bootstrap(diffs * 8)
    assert alone.low < low < mean < high < alone.high, "as if the copies were pairs of their own"


def test_clusters_of_unlike_sizes_weigh_by_their_pairs() -> None:
    # Two clusters of 1 and 3 pairs: drawn are both, or one of them twice.
    assert paired_bootstrap([1.0, 0.0, 0.0, 0.0], [0, 1, 1, 1]) == (0.25, 0.0, 1.0)


def test_clusters_are_given_for_every_pair() -> None:
    with pytest.raises(StatsError, match="as many clusters"):
        paired_bootstrap([1.0, 0.0], [0])


def test_bootstrap_of_equal_differences_has_no_width() -> None:
    assert paired_bootstrap([0.5] * 7) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize("diffs", [[], [1.0, float("nan")], [[1.0], [2.0]]])
def test_bootstrap_refuses_what_is_no_flat_finite_list(diffs: list[float]) -> None:
    with pytest.raises(StatsError, match="flat list"):
        paired_bootstrap(diffs)


def test_bootstrap_refuses_no_resamples() -> None:
    with pytest.raises(StatsError, match="num_resamples"):
        paired_bootstrap([1.0], num_resamples=0)
