"""The one table of results that terminal, page and model card print."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wordle_rl.evaluate.figures import CONSTRAINED, PARTS, SAMPLED, Figures
from wordle_rl.runs.progress import in_percent

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
        >>> from wordle_rl.data.game_record import GameRecord
        >>> from wordle_rl.evaluate.figures import measure
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
        way = "T = 1" if part.endswith(SAMPLED) else "listed words" if part.endswith(CONSTRAINED) else ""
        found[way][part.removesuffix(SAMPLED).removesuffix(CONSTRAINED)] = its
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
