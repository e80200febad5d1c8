"""Distribution of rewards over evaluated games, and the most frequent guesses."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wordle_rl.data.game_record import GameRecord

NUM_BINS = 10


@dataclass(frozen=True)
class RewardFigures:
    """Rewards of some games.

    Attributes:
        preset: Name of the reward.
        num_games: Games with a reward.
        mean: Mean reward.
        std: Standard deviation over the games.
        lowest: Smallest reward.
        highest: Largest reward.
        below_zero: Fraction of games whose reward is negative, 0 to 1.
        bin_edges: Edges of equally wide histogram bins, one more than there are counts.
        bin_counts: Games per bin. The last bin includes its upper edge.
    """

    preset: str
    num_games: int
    mean: float
    std: float
    lowest: float
    highest: float
    below_zero: float
    bin_edges: tuple[float, ...]
    bin_counts: tuple[int, ...]


@dataclass(frozen=True)
class GuessCount:
    """A word, how often it was guessed, and the fraction of games in which it was guessed."""

    word: str
    times: int
    games_fraction: float


def reward_figures(records: Sequence[GameRecord], preset: str) -> RewardFigures | None:
    """Summarise the games' rewards; None if no game has one."""
    rewards = [record.reward for record in records if record.reward is not None]
    if not rewards:
        return None
    counts, edges = np.histogram(rewards, bins=NUM_BINS if min(rewards) < max(rewards) else 1)
    return RewardFigures(
        preset=preset,
        num_games=len(rewards),
        mean=statistics.fmean(rewards),
        std=statistics.pstdev(rewards),
        lowest=min(rewards),
        highest=max(rewards),
        below_zero=sum(reward < 0 for reward in rewards) / len(rewards),
        bin_edges=tuple(edges.tolist()),
        bin_counts=tuple(counts.tolist()),
    )


def commonest_guesses(records: Sequence[GameRecord], count: int) -> list[GuessCount]:
    """Return the most frequent guesses, without prefix guesses; ties in alphabetical order."""
    played = [record for record in records if not record.failed]
    times = Counter(turn.guess for record in played for turn in record.own_turns if turn.guess is not None)
    games = Counter(word for record in played for word in {turn.guess for turn in record.own_turns})
    first = sorted(times.items(), key=lambda item: (-item[1], item[0]))[:count]
    return [GuessCount(word, times[word], games[word] / len(played)) for word, _ in first]
