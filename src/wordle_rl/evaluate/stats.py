"""Uncertainty of figures: Wilson's and Tango's intervals, McNemar's exact test and other sign flips, a bootstrap.

Intervals hold with 95 %. Needs only NumPy and the standard library.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wordle_rl.errors import UserError

_Z = NormalDist().inv_cdf(0.975)  # standard deviations on each side that hold 95 % of a normal distribution
_NUM_RESAMPLES = 10_000


class StatsError(UserError):
    """Impossible input of a statistic. The message names it and the fix."""


class Estimate(NamedTuple):
    """A mean with its interval, in the unit of the averaged values."""

    mean: float
    low: float
    high: float

    @property
    def has_width(self) -> bool:
        """True if the interval is informative. At zero width all resampled values are equal, so it is not."""
        return self.low < self.high


def wilson_interval(wins: float, n: float) -> tuple[float, float]:
    """Return the score interval of a win rate. Unlike wins/n plus or minus a margin, it stays valid near 0 and 1.

    It holds every rate p under which the observed wins are plausible by the normal approximation:
    |wins/n - p| <= z * sqrt(p * (1 - p) / n). With a sum of numbers in 0 to 1 as `wins` it is an interval of their
    mean that assumes the largest variance, that of 0 and 1.

    Args:
        wins: Games won, 0 to n.
        n: Games played, above 0. An effective number of games need not be whole.

    Source: E. B. Wilson, J. Am. Stat. Assoc. 22 (1927), 209-212.

    Examples:
        >>> low, high = wilson_interval(8, 10)
        >>> round(low, 4), round(high, 4)
        (0.4902, 0.9433)
        >>> wilson_interval(0, 20)[0]
        0.0
    """
    margin = _Z * math.sqrt(wins * (n - wins) / n + _Z * _Z / 4)
    centre = wins + _Z * _Z / 2
    # Rounding must not push the ends past the rate itself, nor off 0 and 1 where they are exact.
    low = 0.0 if wins == 0 else min((centre - margin) / (n + _Z * _Z), wins / n)
    high = 1.0 if wins == n else max((centre + margin) / (n + _Z * _Z), wins / n)
    return low, high


def clustered_wilson_interval(wins: Sequence[int], games: Sequence[int]) -> tuple[float, float]:
    """Return the score interval of a win rate over clustered games, such as several games of each secret.

    Games of one secret are correlated, so n is the effective number: games / design effect. The design effect is the
    variance of the rate over the variance if all games were independent. With rate p, and wins w and games m of each
    cluster, the former is the sum of (w - p * m)^2 over (sum of m)^2. The effect is at least 1. If all games are won or
    all are lost it cannot be estimated, and each cluster counts as one game. With clusters of one game this is Wilson's
    interval. With a dozen clusters or fewer the interval is too narrow.

    Args:
        wins: Games won, per cluster.
        games: Games played, per cluster, at least 1 each; at least one cluster.

    Source: L. Kish, Survey Sampling (1965), section 8.2 (effective number); N. Dean and M. Pagano, J. Surv. Stat.
    Methodol. 3 (2015), 484-503 (in Wilson's interval).

    Examples:
        >>> clustered_wilson_interval([8, 0], [8, 8]) == wilson_interval(1, 2)
        True
    """
    num_wins, num_games = sum(wins), sum(games)
    effective = float(len(games))
    if 0 < num_wins < num_games and max(games) > 1:
        rate = num_wins / num_games
        spread = sum((w - rate * m) ** 2 for w, m in zip(wins, games, strict=True)) / num_games
        effective = num_games / max(1.0, spread / (rate * (1 - rate)))
    return wilson_interval(num_wins * effective / num_games, effective)


def sign_flip_exact(diffs: npt.ArrayLike) -> float:
    """Return the two-sided chance of a mean at least this far from 0, if every difference could have the other sign.

    If all differences are 1, 0 or -1, this is McNemar's exact test. If each is the sum over the games of a secret, it
    is that test for clustered games: a model that knows a word wins most of its games, so McNemar's test, which takes
    them for independent, would find false differences several times too often. The chance of every possible sum is
    computed, none is sampled, so the result is exact up to rounding.

    Args:
        diffs: Whole numbers, shape (n,).

    Source: R. A. Fisher, The Design of Experiments (1935), section 21; P. Good, Permutation, Parametric and Bootstrap
    Tests of Hypotheses (2005), section 3.2 (flips of whole units); M. Eliasziw and A. Donner, Stat. Med. 10 (1991),
    1981-1991 (why pairs of a cluster are not to be counted).

    Examples:
        >>> sign_flip_exact([1, 1, 1, 1, 2])  # 2 * (1/2)**5
        0.0625
        >>> sign_flip_exact([3, -3, 0])
        1.0
    """
    values = np.asarray(diffs, dtype=np.int64)
    chances = np.ones(1)  # of every sum from the smallest to the largest
    # Differences of one size are coin tosses of that size; sums of independent parts convolve.
    for size, count in Counter(np.abs(values).tolist()).items():
        if size:
            of_size = np.zeros(2 * size * count + 1)
            # Chance of each number of heads. Integers, so that only the quotient is rounded.
            of_size[:: 2 * size] = [math.comb(count, k) / 2**count for k in range(count + 1)]
            chances = np.convolve(chances, of_size)
    sums = np.arange(len(chances)) - len(chances) // 2
    return min(1.0, float(chances[np.abs(sums) >= abs(int(values.sum()))].sum()))


def paired_score_interval(only_a: int, only_b: int, num_pairs: int) -> Estimate:
    """Return the difference of two win rates on the same secrets, b minus a, with its score interval.

    The interval holds every difference that McNemar's chi-squared test does not reject as null hypothesis. Unlike a
    bootstrap it keeps its width if few games, or none, separate the players.

    `only_a` games were won by the first player alone, of `num_pairs` games that are each of another secret.

    Source: T. Tango, Stat. Med. 17 (1998), 891-908.

    Examples:
        >>> [round(value, 3) for value in paired_score_interval(0, 0, 100)]  # McNemar's p is 1
        [0.0, -0.037, 0.037]
    """
    mean = (only_b - only_a) / num_pairs
    low = -_highest_difference(only_b, only_a, num_pairs)
    high = _highest_difference(only_a, only_b, num_pairs)
    return Estimate(mean, min(low, mean), max(high, mean))


def _highest_difference(only_a: int, only_b: int, n: int) -> float:
    # Bisect for the largest difference that is not ruled out; the score falls as the difference grows.
    low, high = (only_b - only_a) / n, 1.0
    while (middle := (low + high) / 2) not in (low, high):
        # Most likely fraction of games that only a wins, if the difference were `middle`.
        b = (2 * n + only_a - only_b) * middle - only_a - only_b
        share = (math.sqrt(max(0.0, b * b + 8 * n * only_a * middle * (1 - middle))) - b) / (4 * n)
        variance = n * (2 * share + middle * (1 - middle))
        inside = (n * middle - (only_b - only_a)) ** 2 <= _Z * _Z * variance
        low, high = (middle, high) if inside else (low, middle)
    return high


def paired_bootstrap(diffs: npt.ArrayLike, clusters: npt.ArrayLike) -> Estimate:
    """Return the mean of paired differences with a percentile interval, resampling clusters of pairs.

    Args:
        diffs: One difference per pair, shape (n,), n >= 1.
        clusters: Cluster of each pair, from 0, shape (n,). The games of one secret form a cluster.

    Source: B. Efron, Ann. Statist. 7 (1979), 1-26 (percentile method).
    """
    values = np.asarray(diffs, dtype=np.float64)
    sums = np.bincount(np.asarray(clusters), values)
    of_cluster = np.stack([np.bincount(np.asarray(clusters)), sums], axis=1)  # (clusters, 2): pairs, and their sum
    # Differences take a handful of values, so one resample is one multinomial draw over the distinct clusters, and ten
    # thousand resamples of thousands of games cost milliseconds.
    distinct, counts = np.unique(of_cluster, axis=0, return_counts=True)
    drawn = np.random.default_rng(0).multinomial(len(of_cluster), counts / len(of_cluster), size=_NUM_RESAMPLES)
    num_pairs, totals = (drawn @ distinct).T
    low, high = np.quantile(totals / num_pairs, [0.025, 0.975])
    return Estimate(float(values.mean()), float(low), float(high))


def games_needed(rate_a: float, rate_b: float, *, alpha: float = 0.05, power: float = 0.8) -> int:
    """Return the games that each of two players needs for a two-sided test of their win rates, on different secrets.

    With p the mean of both rates, the difference d must exceed z_a sqrt(2 p (1 - p) / n) by
    z_b sqrt((p_a (1 - p_a) + p_b (1 - p_b)) / n). On the same secrets fewer suffice if the players win the same ones.

    Args:
        rate_a: A true win rate, 0 to 1, like `rate_b`.
        alpha: Chance of a false positive.
        power: Chance to find this difference.

    Source: J. L. Fleiss, Statistical Methods for Rates and Proportions (1981), section 3.2, without continuity
    correction.

    Examples:
        >>> games_needed(0.6, 0.7)
        356
    """
    if not (0 <= rate_a <= 1 and 0 <= rate_b <= 1 and rate_a != rate_b):
        raise StatsError(f"win rates {rate_a:g} and {rate_b:g} need no games; give two different ones within 0 and 1")
    if not (0 < alpha < 1 and 0 < power < 1):
        raise StatsError(f"alpha {alpha:g} and power {power:g} must lie strictly between 0 and 1, such as 0.05 and 0.8")
    z_alpha, z_beta = NormalDist().inv_cdf(1 - alpha / 2), NormalDist().inv_cdf(power)
    mean = (rate_a + rate_b) / 2
    apart = rate_a * (1 - rate_a) + rate_b * (1 - rate_b)
    sigmas = z_alpha * math.sqrt(2 * mean * (1 - mean)) + z_beta * math.sqrt(apart)
    return max(1, math.ceil((sigmas / (rate_a - rate_b)) ** 2))


def smallest_difference(rate: float, num_games: int) -> float | None:
    """Return the smallest rise of a win rate, to 0.001, that this many games per player show at 5 % with power 80 %.

    None if even a rise to 1 would not show, or below 10 games (no normal approximation).
    """
    if num_games < 10:
        return None
    rises = (step / 1000 for step in range(1, 1001))
    return next((rise for rise in rises if rate + rise <= 1 and games_needed(rate, rate + rise) <= num_games), None)


def p_text(p_value: float) -> str:
    """Write a p-value with two digits.

    Examples:
        >>> p_text(0.01234), p_text(0.0)
        ('0.012', '< 1e-300')
    """
    return f"{p_value:.2g}" if p_value else "< 1e-300"  # a float of 0 is a value too small for it
