"""Claims in the terminal: held-out results by stratum, and RL beside its controls, as rich tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from wordle_rl.evaluate import STRATA
from wordle_rl.evaluate.strata import Strata
from wordle_rl.report.controls import ControlTable
from wordle_rl.report.terminal import SHORT_NAMES, percent_text

_STRATA_NAMES = {
    "board_shown": "decisive board shown in training",
    "board_not_shown": "named in training, that board not shown",
    "never_said": "never named in training",
}


def strata_table(results: Mapping[str, Mapping[str, Mapping[str, Any]]], strata: Strata) -> Table:
    """Tabulate wins on held-out secrets: a row per stratum, a column per player.

    Args:
        results: Player -> part -> figure -> value.
        strata: The strata.
    """
    table = Table(
        title=Text("Held-out words by what training showed of them, wins in %"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1),
        pad_edge=False,
    )
    table.add_column("", no_wrap=True)
    table.add_column("words", justify="right")
    players = [name for name, parts in results.items() if any(part in parts for part in STRATA)]
    for name in players:
        table.add_column(Text(SHORT_NAMES.get(name, name)), justify="right")
    for part, words in strata.named().items():
        rates = [results[name].get(part, {}).get("win_rate") for name in players]
        table.add_row(_STRATA_NAMES[part], f"{len(words):,}", *map(percent_text, rates))
    return table


_TERMINAL_NAMES = {"held out": "held\nout", "board shown": "board\nshown", "board not shown": "not\nshown"}
_LEFT_OUT = ("training", "p, strict")
"""Columns that only the page has room for."""


def control_table(found: ControlTable) -> Table:
    """Tabulate RL beside its controls: a row per player and sampling."""
    title = Text(f"{found.model} and its controls, wins in %")
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.add_column("", overflow="fold", min_width=24)
    shown = [place for place, column in enumerate(found.columns) if column not in _LEFT_OUT]
    for place in shown:
        column = found.columns[place].removesuffix(", %")
        heading = _TERMINAL_NAMES.get(column, column.replace("p, ", "p,\n"))
        table.add_column(Text(heading), justify="right", no_wrap=True)
    for label, *cells in found.rows:
        table.add_row(Text(label), *(Text(cells[place]) for place in shown))
    return table
