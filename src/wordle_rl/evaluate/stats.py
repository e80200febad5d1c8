"""Uncertainty of figures: Wilson's and Tango's intervals, McNemar's exact test, a sign-flip test, a bootstrap.

Needs only NumPy and the standard library.
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

_MAX_DRAWS_AT_ONCE = 2_000_000


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


def wilson_interval(wins: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the score interval of a win rate. Unlike wins/n plus or minus a margin, it stays valid near 0 and 1.

    It holds every rate p under which the observed wins are plausible by the normal approximation:
    |wins/n - p| <= z * sqrt(p * (1 - p) / n).

    Args:
        wins: Games won, 0 to n.
        n: Games played, at least 1.
        confidence: Coverage, strictly between 0 and 1.

    Returns:
        Low and high end, 0 <= low <= wins/n <= high <= 1.

    Raises:
        StatsError: If the counts or the confidence are impossible.

    Source: E. B. Wilson, J. Am. Stat. Assoc. 22 (1927), 209-212.

    Examples:
        >>> low, high = wilson_interval(8, 10)
        >>> round(low, 4), round(high, 4)
        (0.4902, 0.9433)
        >>> wilson_interval(0, 20)[0]
        0.0
    """
    if n < 1 or not 0 <= wins <= n:
        raise StatsError(f"{wins} wins of {n} games give no interval; n must be at least 1 and wins within 0..n")
    return _score_interval(wins, n, _normal_quantile(confidence))


def clustered_wilson_interval(
    wins: Sequence[int], games: Sequence[int], confidence: float = 0.95
) -> tuple[float, float]:
    """Return the score interval of a win rate over clustered games, such as several games of each secret.

    Games of one secret are correlated, so n is the effective number: games / design effect. The design effect is the
    variance of the rate over the variance if all games were independent. With rate p, and wins w and games m of each
    cluster, the former is the sum of (w - p * m)^2 over (sum of m)^2. The effect is at least 1. If all games are won or
    all are lost it cannot be estimated, and each cluster counts as one game. With clusters of one game this is Wilson's
    interval. With a dozen clusters or fewer the interval is too narrow.

    Args:
        wins: Games won, per cluster.
        games: Games played, per cluster, at least 1 each; at least one cluster.
        confidence: Coverage, strictly between 0 and 1.

    Returns:
        Low and high end, 0 <= low <= rate <= high <= 1.

    Raises:
        StatsError: If there is no cluster, or counts or confidence are impossible.

    Source: L. Kish, Survey Sampling (1965), section 8.2 (effective number); N. Dean and M. Pagano, J. Surv. Stat.
    Methodol. 3 (2015), 484-503 (in Wilson's interval).

    Examples:
        >>> clustered_wilson_interval([8, 0], [8, 8]) == wilson_interval(1, 2)
        True
    """
    if not games or len(wins) != len(games) or not all(0 <= w <= m and m for w, m in zip(wins, games, strict=True)):
        raise StatsError(
            f"{len(wins)} counts of wins and {len(games)} of games give no interval; give both for each of at least "
            "one cluster, at least 1 game each and wins within them"
        )
    num_wins, num_games = sum(wins), sum(games)
    if max(games) == 1:
        return wilson_interval(num_wins, num_games, confidence)
    counted = float(len(games))
    if 0 < num_wins < num_games:
        rate = num_wins / num_games
        spread = sum((w - rate * m) ** 2 for w, m in zip(wins, games, strict=True)) / num_games
        counted = num_games / max(1.0, spread / (rate * (1 - rate)))
    return _score_interval(num_wins / num_games * counted, counted, _normal_quantile(confidence))


def mean_interval(chances: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Return Wilson's interval for the mean of numbers in 0 to 1. It assumes the largest variance, that of 0 and 1.

    Args:
        chances: One number per secret, at least one, each 0 to 1.
        confidence: Coverage at least, strictly between 0 and 1.

    Returns:
        Low and high end, 0 <= low <= mean <= high <= 1.

    Raises:
        StatsError: If there is no number, or one is out of range.

    Examples:
        >>> mean_interval([1, 0, 1, 1]) == wilson_interval(3, 4)
        True
    """
    if not chances or not all(0 <= chance <= 1 for chance in chances):
        raise StatsError("an interval of a mean needs at least one number, each from 0 to 1")
    total, count = math.fsum(chances), float(len(chances))
    return _score_interval(min(total, count), count, _normal_quantile(confidence))


def _score_interval(wins: float, n: float, z: float) -> tuple[float, float]:
    # Counts are floats, since an effective number of games need not be whole.
    spread = z * math.sqrt(max(0.0, wins * (n - wins)) / n + z * z / 4)
    centre = wins + z * z / 2
    # Rounding must not push the ends past the rate itself, nor off 0 and 1 where they are exact.
    low = 0.0 if wins == 0 else min((centre - spread) / (n + z * z), wins / n)
    high = 1.0 if wins == n else max((centre + spread) / (n + z * z), wins / n)
    return low, high


def mcnemar_exact(only_a: int, only_b: int) -> float:
    """Return the chance of a split at least this uneven, if each game that only one side won were a coin toss.

    Games both won or both lost carry no information and do not enter. Binomial coefficients are summed as integers, so
    the result is exact up to one rounding.

    Args:
        only_a: Games that only the first player won.
        only_b: Games that only the second player won.

    Returns:
        The two-sided p-value, at most 1. It is 1 if no game separates the players, and 0.0 on float underflow.

    Raises:
        StatsError: If a count is negative.

    Source: Q. McNemar, Psychometrika 12 (1947), 153-157, with the binomial in place of its approximation.

    Examples:
        >>> mcnemar_exact(0, 5)  # 2 * (1/2)**5
        0.0625
        >>> mcnemar_exact(3, 3)
        1.0
    """
    if only_a < 0 or only_b < 0:
        raise StatsError(f"McNemar's test got {only_a} and {only_b}; counts must not be negative")
    discordant = only_a + only_b
    term, total = 1, 1  # C(discordant, k), and the sum up to k
    for k in range(min(only_a, only_b)):
        term = term * (discordant - k) // (k + 1)
        total += term
    tail_probability: float = total / 2**discordant
    return min(1.0, 2 * tail_probability)


def clustered_mcnemar(
    diffs: Sequence[int] | npt.NDArray[np.integer], clusters: Sequence[int] | npt.NDArray[np.integer]
) -> float:
    """Return McNemar's exact test for clustered pairs, such as several games of each secret.

    Games of one secret are alike: a model that knows a word wins most of its games. McNemar's test would treat them as
    independent, and with eight games per secret find false differences several times too often. Here a secret is one
    observation, the sum of its differences, and its sign is flipped as a whole. The test is exact for equal players.

    Args:
        diffs: Wins of the second player minus those of the first, per pair: 1, 0 or -1, shape (n,).
        clusters: The cluster of each pair, from 0, shape (n,).

    Returns:
        The two-sided p-value, at most 1. With clusters of one pair it is McNemar's.

    Raises:
        StatsError: If the shapes differ, or a difference is not a whole number.

    Source: M. Eliasziw and A. Donner, Stat. Med. 10 (1991), 1981-1991 (why pairs of a cluster are not to be counted);
    P. Good, Permutation, Parametric and Bootstrap Tests of Hypotheses (2005), section 3.2 (flips of whole units).

    Examples:
        >>> clustered_mcnemar([1, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1])  # two secrets, both for b: 2 * (1/2)**2
        0.5
        >>> clustered_mcnemar([1, 1, 1, 1, 1], [0, 1, 2, 3, 4]) == mcnemar_exact(0, 5)
        True
    """
    values, own = np.asarray(diffs), np.asarray(clusters)
    if values.shape != own.shape or values.ndim != 1:
        raise StatsError(f"{values.shape} differences need as many clusters, got shape {own.shape}")
    if len(values) and not np.issubdtype(values.dtype, np.integer):
        raise StatsError(f"differences of wins are whole numbers, got {values.dtype}")
    return sign_flip_exact(np.rint(np.bincount(own, values)).astype(np.int64) if len(values) else [])


def paired_score_interval(only_a: int, only_b: int, num_pairs: int, confidence: float = 0.95) -> Estimate:
    """Return the difference of two win rates on the same secrets, b minus a, with its score interval.

    The interval holds every difference that McNemar's chi-squared test does not reject as null hypothesis. Unlike a
    bootstrap it keeps its width if few games, or none, separate the players.

    Args:
        only_a: Games that only the first player won.
        only_b: Games that only the second player won.
        num_pairs: All games, each of another secret, at least 1.
        confidence: Coverage, strictly between 0 and 1.

    Returns:
        The difference and its ends, all within -1 to 1.

    Raises:
        StatsError: If the counts or the confidence are impossible.

    Source: T. Tango, Stat. Med. 17 (1998), 891-908.

    Examples:
        >>> [round(value, 3) for value in paired_score_interval(0, 0, 100)]  # McNemar's p is 1
        [0.0, -0.037, 0.037]
    """
    if min(only_a, only_b) < 0 or num_pairs < max(1, only_a + only_b):
        raise StatsError(
            f"{only_a} and {only_b} of {num_pairs} games give no interval; counts must not be negative and be of at "
            "least 1 game"
        )
    z = _normal_quantile(confidence)
    mean = (only_b - only_a) / num_pairs
    low = -_highest_difference(only_b, only_a, num_pairs, z)
    high = _highest_difference(only_a, only_b, num_pairs, z)
    return Estimate(mean, min(low, mean), max(high, mean))


def _highest_difference(only_a: int, only_b: int, n: int, z: float) -> float:
    # Bisect for the largest difference that is not ruled out; the score falls as the difference grows.
    low, high = (only_b - only_a) / n, 1.0
    while (middle := (low + high) / 2) not in (low, high):
        # Most likely fraction of games that only a wins, if the difference were `middle`.
        b = (2 * n + only_a - only_b) * middle - only_a - only_b
        share = (math.sqrt(max(0.0, b * b + 8 * n * only_a * middle * (1 - middle))) - b) / (4 * n)
        variance = n * (2 * share + middle * (1 - middle))
        inside = (n * middle - (only_b - only_a)) ** 2 <= z * z * variance
        low, high = (middle, high) if inside else (low, middle)
    return high


def sign_flip_exact(diffs: Sequence[int] | npt.NDArray[np.integer]) -> float:
    """Return the chance of a mean at least this far from 0, if every difference could equally have the other sign.

    If all differences are 1, 0 or -1, this is McNemar's exact test. The chance of every possible sum is computed, none
    is sampled, so the result is exact up to rounding.

    Args:
        diffs: One whole number per pair, shape (n,).

    Returns:
        The two-sided p-value, at most 1. It is 1 if all differences are 0.

    Raises:
        StatsError: If a difference is not a whole number.

    Source: R. A. Fisher, The Design of Experiments (1935), section 21.

    Examples:
        >>> sign_flip_exact([1, 1, 1, 1, 2])  # 2 * (1/2)**5
        0.0625
        >>> sign_flip_exact([3, -3, 0])
        1.0
    """
    values = np.asarray(diffs)
    if values.ndim != 1 or not (np.issubdtype(values.dtype, np.integer) or not len(values)):
        raise StatsError(f"a sign-flip test needs a flat list of whole numbers, got {values.dtype} of {values.shape}")
    chances = np.ones(1)  # of every sum from the smallest to the largest
    # Differences of one size are coin tosses of that size; sums of independent parts convolve.
    for size, count in Counter(np.abs(values).tolist()).items():
        if size:
            of_size = np.zeros(2 * size * count + 1)
            of_size[:: 2 * size] = _coin_chances(count)
            chances = np.convolve(chances, of_size)
    sums = np.arange(len(chances)) - len(chances) // 2
    return min(1.0, float(chances[np.abs(sums) >= abs(int(values.sum()))].sum()))


def _coin_chances(count: int) -> npt.NDArray[np.float64]:
    # Chance of each number of heads, 0 to `count`.
    return np.array([math.comb(count, k) / 2**count for k in range(count + 1)])


def paired_bootstrap(
    diffs: Sequence[float] | npt.NDArray[np.float64],
    clusters: Sequence[int] | npt.NDArray[np.integer] | None = None,
    *,
    num_resamples: int = 10_000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Estimate:
    """Return the mean of paired differences with a percentile interval, resampling pairs or clusters of pairs.

    One resample is one multinomial draw over the distinct clusters (number of pairs, and their sum). Differences take a
    handful of values, so ten thousand resamples of thousands of games cost milliseconds.

    Args:
        diffs: One difference per pair, shape (n,), finite, n >= 1.
        clusters: Cluster of each pair, from 0, shape (n,), for dependent pairs such as several games of one secret.
            None: each pair by itself.
        num_resamples: Number of resamples, at least 1.
        seed: Random seed.
        confidence: Coverage, strictly between 0 and 1.

    Returns:
        The mean of `diffs` and the interval's ends, in the unit of `diffs`.

    Raises:
        StatsError: If there are no differences, one is not finite, or a setting is impossible.

    Source: B. Efron, Ann. Statist. 7 (1979), 1-26 (percentile method).
    """
    values = np.asarray(diffs, dtype=np.float64)
    if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all():
        raise StatsError(f"a bootstrap needs a flat list of at least one finite difference, got shape {values.shape}")
    if num_resamples < 1:
        raise StatsError(f"num_resamples is {num_resamples}; give at least 1")
    tail = (1 - _checked_confidence(confidence)) / 2
    own = np.arange(len(values)) if clusters is None else np.asarray(clusters)
    if own.shape != values.shape:
        raise StatsError(f"{len(values)} differences need as many clusters, got shape {own.shape}")
    sizes = np.bincount(own)
    of_cluster = np.stack([sizes, np.bincount(own, values)], axis=1)[sizes > 0]  # (clusters, 2)
    distinct, counts = np.unique(of_cluster, axis=0, return_counts=True)
    rng = np.random.default_rng(seed)
    means = np.empty(num_resamples)
    chunk = max(1, _MAX_DRAWS_AT_ONCE // len(distinct))
    for start in range(0, num_resamples, chunk):
        size = min(chunk, num_resamples - start)
        drawn = rng.multinomial(len(of_cluster), counts / len(of_cluster), size=size)  # (size, distinct)
        num_pairs, totals = (drawn @ distinct).T
        means[start : start + size] = totals / num_pairs
    low, high = np.quantile(means, [tail, 1 - tail])
    return Estimate(float(values.mean()), float(low), float(high))


def games_needed(rate_a: float, rate_b: float, *, alpha: float = 0.05, power: float = 0.8) -> int:
    """Return the games that each of two players needs for a two-sided test of their win rates, on different secrets.

    With p the mean of both rates, the difference d must exceed z_a sqrt(2 p (1 - p) / n) by
    z_b sqrt((p_a (1 - p_a) + p_b (1 - p_b)) / n). On the same secrets fewer suffice if the players win the same ones.

    Args:
        rate_a: A true win rate, 0 to 1.
        rate_b: Another.
        alpha: Chance of a false positive.
        power: Chance to find this difference.

    Raises:
        StatsError: If a rate or chance is impossible, or both rates are the same.

    Source: J. L. Fleiss, Statistical Methods for Rates and Proportions (1981), section 3.2, without continuity
    correction.

    Examples:
        >>> games_needed(0.6, 0.7)
        356
    """
    if not (0 <= rate_a <= 1 and 0 <= rate_b <= 1 and rate_a != rate_b):
        raise StatsError(f"win rates {rate_a:g} and {rate_b:g} need no games; give two different ones within 0 and 1")
    z_alpha = _normal_quantile(1 - alpha)
    z_beta = NormalDist().inv_cdf(_checked_confidence(power))
    mean = (rate_a + rate_b) / 2
    apart = rate_a * (1 - rate_a) + rate_b * (1 - rate_b)
    sigmas = z_alpha * math.sqrt(2 * mean * (1 - mean)) + z_beta * math.sqrt(apart)
    return max(1, math.ceil((sigmas / (rate_a - rate_b)) ** 2))


def smallest_difference(rate: float, num_games: int) -> float | None:
    """Return the smallest rise of a win rate that this many games per player can show, at 5 % with power 80 %.

    Args:
        rate: Win rate to rise from, 0 to 1.
        num_games: Games of each player.

    Returns:
        The rise, to 0.001. None if even a rise to 1 would not show, or below 10 games (no normal approximation).
    """
    if num_games < 10:
        return None
    rises = (step / 1000 for step in range(1, 1001))
    return next((rise for rise in rises if rate + rise <= 1 and games_needed(rate, rate + rise) <= num_games), None)


def _normal_quantile(confidence: float) -> float:
    # Standard deviations on each side that hold this fraction of a normal distribution.
    return NormalDist().inv_cdf((1 + _checked_confidence(confidence)) / 2)


def _checked_confidence(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise StatsError(f"confidence is {confidence}; give a fraction strictly between 0 and 1, such as 0.95")
    return confidence


def p_text(p_value: float) -> str:
    """Write a p-value with two digits.

    Examples:
        >>> p_text(0.01234), p_text(0.0)
        ('0.012', '< 1e-300')
    """
    return f"{p_value:.2g}" if p_value else "< 1e-300"  # a float of 0 is a value too small for it
