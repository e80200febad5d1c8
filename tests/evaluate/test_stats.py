import itertools
import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from wordle_rl.evaluate import stats

Z_95 = 1.959963984540054


@given(st.integers(1, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
@example((0, 1))
@example((1, 1))
@example((2734, 2734))
def test_wilson_ends_are_exactly_z_standard_errors_from_the_rate(case: tuple[int, int]) -> None:
    wins, n = case
    for end in stats.wilson_interval(wins, n):
        distance = abs(wins / n - end)
        on_the_edge = end in (0.0, 1.0) and distance == 0
        assert on_the_edge or distance == pytest.approx(Z_95 * math.sqrt(end * (1 - end) / n), rel=1e-6, abs=1e-9)


def test_games_of_one_secret_widen_the_interval_as_resampling_secrets_does() -> None:
    rng = np.random.default_rng(4)
    games = rng.integers(4, 12, 300)
    wins = rng.binomial(games, rng.beta(0.8, 0.5, 300))  # some secrets are found nearly always, some hardly ever
    drawn = rng.integers(0, 300, (20_000, 300))
    resampled = np.quantile(wins[drawn].sum(axis=1) / games[drawn].sum(axis=1), [0.025, 0.975])
    low, high = stats.clustered_wilson_interval(wins.tolist(), games.tolist())
    assert (low, high) == pytest.approx(resampled, abs=0.004)
    alone = stats.wilson_interval(int(wins.sum()), int(games.sum()))
    assert high - low > 1.7 * (alone[1] - alone[0])


@given(st.lists(st.integers(0, 1), min_size=1, max_size=60), st.integers(1, 9))
def test_games_that_only_repeat_each_other_count_once(won: list[int], times: int) -> None:
    once = stats.wilson_interval(sum(won), len(won))
    again = stats.clustered_wilson_interval([times * win for win in won], [times] * len(won))
    assert again == pytest.approx(once)
    assert times > 1 or again == once


@given(st.lists(st.integers(1, 9).flatmap(lambda m: st.tuples(st.integers(0, m), st.just(m))), min_size=1))
def test_clusters_never_tell_more_than_their_games_nor_lose_the_rate(clusters: list[tuple[int, int]]) -> None:
    wins, games = [w for w, _ in clusters], [m for _, m in clusters]
    low, high = stats.clustered_wilson_interval(wins, games)
    alone_low, alone_high = stats.wilson_interval(sum(wins), sum(games))
    assert 0 <= low <= alone_low + 1e-9
    assert alone_high - 1e-9 <= high <= 1
    mirrored = stats.clustered_wilson_interval([m - w for w, m in clusters], games)
    assert (1 - high, 1 - low) == pytest.approx(mirrored, abs=1e-9)


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
    mean, low, high = stats.paired_score_interval(*case)
    assert -1 <= low <= mean <= high <= 1
    for end in (low, high):
        assert abs(end) == 1 or score_oracle(*case, end) == pytest.approx(Z_95**2, rel=1e-3)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 400))
@example(0, 0, 1)
def test_no_difference_is_ruled_out_just_where_mcnemars_chi_squared_rules_it_out(only_a, only_b, others: int) -> None:
    num_pairs = max(1, only_a + only_b + others)
    mean, low, high = stats.paired_score_interval(only_a, only_b, num_pairs)
    chi_squared = (only_a - only_b) ** 2 / max(1, only_a + only_b)
    assert (low <= 0 <= high) == (chi_squared <= Z_95**2)
    assert mean == (only_b - only_a) / num_pairs
    assert stats.paired_score_interval(only_b, only_a, num_pairs) == (-mean, -high, -low)


@given(st.lists(st.integers(-6, 6), max_size=9))
@example([-1, -1, 0, 1, 1, 1, 1])
def test_sign_flips_are_all_counted(diffs: list[int]) -> None:
    flipped = [sum(signs) for signs in itertools.product(*((d, -d) for d in diffs))]
    uneven = sum(abs(total) >= abs(sum(diffs)) for total in flipped)
    assert stats.sign_flip_exact(diffs) == pytest.approx(uneven / len(flipped))


DIFFS = [[1.0] * 30 + [0.0] * 160 + [-1.0] * 10, [*np.random.default_rng(3).normal(0.3, 2.0, 150)], [0.0, 0.0, 3.0]]


@pytest.mark.parametrize("diffs", DIFFS)
def test_bootstrap_agrees_with_drawing_the_pairs_one_by_one(diffs: list[float]) -> None:
    rng = np.random.default_rng(11)
    slow_low, slow_high = np.quantile([rng.choice(diffs, len(diffs)).mean() for _ in range(8000)], [0.025, 0.975])
    mean, low, high = stats.paired_bootstrap(diffs, range(len(diffs)))
    assert mean == pytest.approx(sum(diffs) / len(diffs))
    assert (low, high) == pytest.approx((slow_low, slow_high), abs=0.15 * (slow_high - slow_low))


def test_copies_of_a_pair_tell_nothing_new() -> None:
    diffs = [1.0] * 12 + [0.0] * 40 + [-1.0] * 7
    alone = stats.paired_bootstrap(diffs, range(len(diffs)))
    assert stats.paired_bootstrap(diffs * 8, list(range(len(diffs))) * 8) == pytest.approx(alone)
    mean, low, high = stats.paired_bootstrap(diffs * 8, range(8 * len(diffs)))
    assert alone.low < low < mean < high < alone.high, "as if the copies were pairs of their own"


def test_the_games_needed_are_those_of_published_tables() -> None:
    assert stats.games_needed(0.6, 0.7) == stats.games_needed(0.7, 0.6) == 356
    assert stats.games_needed(0.1, 0.2) == 199


@given(st.floats(0.0, 0.99), st.integers(10, 5000))
def test_the_smallest_difference_needs_the_games_there_are(rate: float, num_games: int) -> None:
    rise = stats.smallest_difference(rate, num_games)
    if rise is None:
        assert stats.games_needed(rate, 1.0) > num_games or rate > 0.98
    else:
        assert stats.games_needed(rate, rate + rise) <= num_games


@pytest.mark.parametrize("rates", [(0.5, 0.5), (-0.1, 0.5), (0.5, 1.1)])
def test_rates_that_no_games_tell_apart_are_refused(rates: tuple[float, float]) -> None:
    with pytest.raises(stats.StatsError):
        stats.games_needed(*rates)


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
    by_game = [stats.sign_flip_exact(d) for d in diffs]
    by_secret = [stats.sign_flip_exact(np.bincount(clusters, d)) for d in diffs]
    return tuple(float(np.mean(np.array(found) <= 0.05)) for found in (by_game, by_secret))


@pytest.mark.parametrize(("spread", "shared"), [(0.2, 0), (1, 0.5), (2, 0), (1e-6, 1)])
def test_equal_players_are_called_different_in_five_of_a_hundred_cases(spread, shared) -> None:
    by_game, by_secret = rates_of_error(spread, shared)
    assert by_secret == pytest.approx(0.05, abs=0.017), "three standard errors of 1,500 trials"
    if spread < 0.1:
        assert by_game < 0.067, "games of a secret are independent"
    else:
        assert by_game > 0.10, "the games of a secret are no coins of their own"
