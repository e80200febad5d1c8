"""Figures of games, by part of the secrets, and the one table that terminal, page and model card print of them."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from wordle_rl.data.game_record import GameRecord, TurnRecord
from wordle_rl.evaluate.stats import clustered_wilson_interval, wilson_interval
from wordle_rl.game import Outcome
from wordle_rl.rollout import pass_at, powers_of_two
from wordle_rl.runs.progress import in_percent
from wordle_rl.words.split import SplitName

RESULT_SPLITS: tuple[SplitName, ...] = ("all", "train", "held_out", "strict")
STRATA = ("board_shown", "board_not_shown", "never_said")
PARTS = ("all", "train", "val", "held_out", "strict", *STRATA, "outside")
"""Parts of the secrets, in the order of all tables."""
_SAMPLED, _CONSTRAINED = "_sampled", "_constrained"
CONSTRAINED_PART = f"held_out{_CONSTRAINED}"
STRICT_CONSTRAINED_PART = f"strict{_CONSTRAINED}"
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
    return f"{part}{_SAMPLED}"


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


# --- the table of results -------------------------------------------------------------------------------------------

MISSING = "–"
PART_TITLES = {
    "train": "training",
    "val": "validation",
    "held_out": "held out",
    "board_shown": "board shown",
    "board_not_shown": "board not shown",
    "never_said": "never said",
}
"""Titles of the columns of parts that are not called by their names."""


@dataclass(frozen=True)
class Table:
    """Titles of the columns after the first, and rows: a label and a cell for each column."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Shown(NamedTuple):
    """A figure as tables show it: its label, its text, and that of its 95 % interval."""

    label: str
    text: Callable[[Figures], str]
    interval: Callable[[Figures], str] | None = None


def percent_text(rate: float | None) -> str:
    """Format a rate of 0 to 1 in percent; a dash for None."""
    return MISSING if rate is None else in_percent(rate)


def number_text(value: float | None, digits: int = 3) -> str:
    """Format a number with `digits` decimals; a dash for None."""
    return MISSING if value is None else f"{value:.{digits}f}"


def interval_text(low: float | None, high: float | None) -> str:
    """Format the ends of an interval of rates in percent; a dash without them."""
    return MISSING if low is None or high is None else f"{in_percent(low)}–{in_percent(high)}"


WINS = (
    Shown("games", lambda f: f"{f.num_games:,}"),
    Shown("wins, %", lambda f: percent_text(f.win_rate), lambda f: interval_text(f.win_rate_low, f.win_rate_high)),
)
"""How many games there are, and how many are won."""
MAIN_FIGURES = (
    *WINS,
    Shown("guesses on wins", lambda f: number_text(f.mean_guesses_on_wins)),
    Shown("losses as one more", lambda f: number_text(f.mean_guesses_with_losses)),
    Shown("regret per turn", lambda f: number_text(f.mean_regret)),
    Shown("invalid turns, %", lambda f: percent_text(f.invalid_rate)),
)
ALL_FIGURES = (
    *MAIN_FIGURES,
    Shown("malformed turns, %", lambda f: percent_text(f.malformed_rate)),
    Shown("repeated turns, %", lambda f: percent_text(f.repeated_rate)),
    Shown("against clues, %", lambda f: percent_text(f.clue_violating_rate)),
    Shown("errors", lambda f: f"{f.num_errors:,}"),
)
"""Every figure that a table can show. To add one, add a line here."""


def results_table(
    results: Mapping[str, Mapping[str, Figures]],
    shown: Sequence[Shown] = ALL_FIGURES,
    parts: Collection[str] | None = None,
) -> Table:
    """Tabulate figures (player -> part of the secrets -> figures): a column per part, the players below each figure.

    Sampled and constrained play (`sampled_part`, `CONSTRAINED_PART`) has rows of its own, as of other players. Figures
    that nobody has are left out. `parts` chooses columns; None: all.

    Examples:
        >>> figures = measure([GameRecord("crane", ())], max_turns=6)
        >>> results_table({"sft": {"train": figures}}, WINS)
        Table(columns=('training',), rows=(('games', '1'), ('wins, %', '0.0'), ('  95 %', '0.0–79.3')))
    """
    players = {
        f"{player}, {way}" if way else player: figures
        for player, its in results.items()
        for way, figures in _ways_of_play(its).items()
    }
    found = dict.fromkeys(part for figures in players.values() for part in figures if parts is None or part in parts)
    # Secrets with a name of their own come first: they are all that were played.
    columns = sorted(found, key=lambda part: PARTS.index(part) if part in PARTS else -1)
    rows: list[tuple[str, ...]] = []
    for figure in (*shown, *_pass_figures(players)):
        rows += _rows_of(figure, players, columns)
    return Table(tuple(PART_TITLES.get(part, part) for part in columns), tuple(rows))


def _ways_of_play(figures: Mapping[str, Figures]) -> dict[str, dict[str, Figures]]:
    # Files call the same secrets played otherwise parts of their own, so that nobody takes them for the greedy, free
    # ones. In a table they belong into the same column.
    found: dict[str, dict[str, Figures]] = {"": {}, "T = 1": {}, "listed words": {}}
    for part, its in figures.items():
        way = "T = 1" if part.endswith(_SAMPLED) else "listed words" if part.endswith(_CONSTRAINED) else ""
        found[way][part.removesuffix(_SAMPLED).removesuffix(_CONSTRAINED)] = its
    return {way: parts for way, parts in found.items() if parts}


def _rows_of(
    figure: Shown, players: Mapping[str, Mapping[str, Figures]], columns: Sequence[str]
) -> Iterator[tuple[str, ...]]:
    def row(label: str, player: str, text: Callable[[Figures], str]) -> tuple[str, ...]:
        found = players[player]
        return (label, *(text(found[part]) if part in found else MISSING for part in columns))

    rows = [row(f"  {player}", player, figure.text) for player in players]
    # What each column says, whoever says it.
    known = [{cell for cell in column if cell != MISSING} for column in list(zip(*rows, strict=True))[1:]]
    if not any(known):
        return
    if figure.label == "games" and all(len(cells) < 2 for cells in known):  # all players have played the same number
        yield (figure.label, *(next(iter(cells), MISSING) for cells in known))
        return
    # A single player needs no name: its figures stand beside their labels.
    alone = len(players) == 1
    if not alone:
        yield (figure.label, *[""] * len(columns))
    for player, cells in zip(players, rows, strict=True):
        yield (figure.label, *cells[1:]) if alone else cells
        if figure.interval is not None:
            yield row("  95 %" if alone else "    95 %", player, figure.interval)


def _pass_figures(players: Mapping[str, Mapping[str, Figures]]) -> list[Shown]:
    most = {k for found in players.values() for figures in found.values() for k in figures.pass_at}

    def rate(k: str) -> Shown:
        def values(figures: Figures) -> tuple[float | None, float | None, float | None]:
            return figures.pass_at.get(k, (None, None, None))

        return Shown(f"pass@{k}, %", lambda f: percent_text(values(f)[0]), lambda f: interval_text(*values(f)[1:]))

    return [rate(k) for k in sorted(most, key=int)]
