"""Figures of games, by part of the secrets."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from wordle_rl.data.game_record import GameRecord, TurnRecord
from wordle_rl.evaluate.stats import clustered_wilson_interval, wilson_interval
from wordle_rl.game import Outcome
from wordle_rl.rollout import pass_at, powers_of_two
from wordle_rl.words.split import SplitName

RESULT_SPLITS: tuple[SplitName, ...] = ("all", "train", "held_out", "strict")
STRATA = ("board_shown", "board_not_shown", "never_said")
PARTS = ("all", "train", "val", "held_out", "strict", *STRATA, "outside")
"""Parts of the secrets, in the order of all tables."""
SAMPLED, CONSTRAINED = "_sampled", "_constrained"
CONSTRAINED_PART = f"held_out{CONSTRAINED}"
STRICT_CONSTRAINED_PART = f"strict{CONSTRAINED}"
PART_NAMES = {
    "all": "all secrets",
    "train": "training secrets",
    "held_out": "held-out secrets",
    "strict": "strict secrets, named nowhere in training",
    "board_shown": "held out, decisive board shown in training",
    "board_not_shown": "held out, that board not shown",
    "never_said": "held out, never named in training",
    CONSTRAINED_PART: "held-out secrets, guesses limited to listed words",
    STRICT_CONSTRAINED_PART: "strict secrets, guesses limited to listed words",
}
"""Names of the parts in full."""


def sampled_part(part: str) -> str:
    """Return the part name for the same secrets sampled at temperature 1.

    Examples:
        >>> sampled_part("held_out")
        'held_out_sampled'
    """
    return f"{part}{SAMPLED}"


@dataclass(frozen=True)
class Figures:
    """Figures of a set of games. Rates are 0 to 1. A figure without data is None.

    Attributes:
        num_games: Games won or lost, without errors.
        win_rate_low: Lower end of its 95 % Wilson interval, see `clustered_wilson_interval`.
        mean_guesses_with_losses: Mean turns used; a loss counts as one more than the game has turns (7 of 6).
        invalid_rate: Fraction of turns with a readable guess that was not scored: unlisted, of the wrong length, or
            against hard mode.
        repeated_rate: Fraction of turns that repeat an earlier guess of the game.
        clue_violating_rate: Fraction of turns whose guess contradicts earlier marks, so it could not win.
        malformed_rate: Fraction of turns without a readable guess.
        mean_regret: Expected guesses lost per turn, over turns where it was measured.
        guess_distribution: Won games by turns used, from "1", and "loss".
        pass_at: If each secret was played n > 1 times: k ("1", "2", "4" and so on up to n) -> chance that one of k
            games is won, with the ends of its 95 % interval for secrets like these.
    """

    num_games: int
    win_rate: float | None
    win_rate_low: float | None
    win_rate_high: float | None
    mean_guesses_on_wins: float | None
    mean_guesses_with_losses: float | None
    invalid_rate: float | None
    repeated_rate: float | None
    clue_violating_rate: float | None
    malformed_rate: float | None
    mean_regret: float | None
    num_turns: int
    num_errors: int
    guess_distribution: dict[str, int]
    pass_at: dict[str, tuple[float, float, float]] = field(default_factory=dict)


def measure(records: Sequence[GameRecord], max_turns: int) -> Figures:
    """Compute the figures of some games, see `Figures`."""
    played = [record for record in records if not record.failed]
    turns = [turn for record in played for turn in record.own_turns]
    won_in = Counter(record.turns_used for record in played if record.won)
    wins, num_games = won_in.total(), len(played)
    losses = num_games - wins
    guesses_on_wins = sum(used * count for used, count in won_in.items())
    # By secret, since games of one secret are no independent observations.
    games_of = Counter(record.secret for record in played)
    wins_of = Counter(record.secret for record in played if record.won)
    low, high = (
        clustered_wilson_interval([wins_of[secret] for secret in games_of], list(games_of.values()))
        if played
        else (None, None)
    )
    # Over turns, not over games: a long game has more turns to give something away.
    regrets = [turn.notes.regret for turn in turns if turn.notes.regret is not None]
    return Figures(
        num_games=num_games,
        win_rate=_ratio(wins, num_games),
        win_rate_low=low,
        win_rate_high=high,
        mean_guesses_on_wins=_ratio(guesses_on_wins, wins),
        mean_guesses_with_losses=_ratio(guesses_on_wins + losses * (max_turns + 1), num_games),
        invalid_rate=_ratio(sum(is_invalid(turn) for turn in turns), len(turns)),
        repeated_rate=_ratio(sum(turn.notes.repeated for turn in turns), len(turns)),
        clue_violating_rate=_ratio(sum(turn.notes.violates_clues for turn in turns), len(turns)),
        malformed_rate=_ratio(sum(turn.outcome is Outcome.MALFORMED for turn in turns), len(turns)),
        mean_regret=_ratio(sum(regrets), len(regrets)),
        num_turns=len(turns),
        num_errors=len(records) - num_games,
        guess_distribution={str(used): won_in[used] for used in range(1, max_turns + 1)} | {"loss": losses},
        pass_at=_pass_at(games_of, wins_of),
    )


def _pass_at(games_of: Counter[str], wins_of: Counter[str]) -> dict[str, tuple[float, float, float]]:
    # Quoted up to the smallest number of games that a secret has.
    most = min(games_of.values(), default=1)
    if most < 2:
        return {}
    found = {}
    for k in powers_of_two(most):
        chances = [pass_at(count, wins_of[secret], k) for secret, count in games_of.items()]
        found[str(k)] = (statistics.fmean(chances), *wilson_interval(math.fsum(chances), len(chances)))
    return found


def quoted_parts(played: Collection[str], answers: Iterable[str], strict: Collection[str] = ()) -> list[SplitName]:
    """Return the parts for which figures of these secrets may be quoted.

    `all` is left out unless every answer was played, since parts out of proportion would skew it.
    """
    quotable = {"all": frozenset(played).issuperset(answers), "strict": bool(strict)}
    return [part for part in RESULT_SPLITS if quotable.get(part, True)]


def is_invalid(turn: TurnRecord) -> bool:
    """True if a turn had a readable guess that was not scored."""
    return turn.outcome.broke_rules and turn.outcome is not Outcome.MALFORMED


def _ratio(total: float, count: int) -> float | None:
    return total / count if count else None


@dataclass(frozen=True)
class RewardFigures:
    """Rewards of some games. `bin_edges` are those of a histogram, one more than there are `bin_counts`."""

    preset: str
    num_games: int
    mean: float
    std: float
    lowest: float
    highest: float
    below_zero: float
    bin_edges: tuple[float, ...]
    bin_counts: tuple[int, ...]


def reward_figures(records: Sequence[GameRecord], preset: str) -> RewardFigures | None:
    """Summarise the games' rewards; None if no game has one."""
    rewards = [record.notes.reward for record in records if record.notes.reward is not None]
    if not rewards:
        return None
    # Equal rewards have no range to divide into bins.
    counts, edges = np.histogram(rewards, bins=10 if min(rewards) < max(rewards) else 1)
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
