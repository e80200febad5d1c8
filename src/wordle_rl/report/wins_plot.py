"""Wins of training games as a file of SVG: how many so far, and the win rate against the turn, by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np

from wordle_rl.report.html.charts import Floats, Series, format_value, nice_ticks, running_mean
from wordle_rl.report.read import ReportError
from wordle_rl.runs import BY_TURN

_WIDTH, _PANEL, _LEFT, _RIGHT, _TOP, _FOOT = 640, 240, 56, 560, 36, 34
_LINE = 12.0
"""Height of a line of text."""
_SMOOTH_FROM = 40
_COLORS = ("#c2571a", "#a67a10", "#1a7f3c", "#16818c", "#5b7aa8", "#8a4fb0", "#c23b5e", "#6a6f76")


def wins_plot(metrics: Mapping[str, Sequence[Mapping[str, Any]]], title: str) -> str:
    """Two panels over the steps of the training that counted its wins.

    Args:
        metrics: Rows of metrics.jsonl by stage, as `read_run` has them; of any backend.
        title: Line above the panels.

    Raises:
        ReportError: If no row counts wins.
    """
    counted = {stage: rows for stage, rows in metrics.items() if any("cumulative_wins" in row for row in rows)}
    if not counted:
        raise ReportError("metrics.jsonl counts no wins of training games; name a run that was trained by GRPO")
    stage, rows = list(counted.items())[-1]
    wins = _series(rows, "cumulative_wins", "wins so far")
    names = sorted({name for row in rows for name in row if name.startswith(BY_TURN)}, key=_turn_of)
    by_turn = [_smooth(_series(rows, name, f"by turn {_turn_of(name)}")) for name in names]
    upper = _panel([wins], 0, f"{stage}: training games won since the start")
    lower = ""
    if by_turn:
        heading = "share of a step's games won by this turn, of those whose secret is an answer"
        lower = _panel(by_turn, _PANEL, heading, percent=True)
    height = _PANEL * (2 if by_turn else 1) + 10
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'aria-label="{escape(title)}" font-family="sans-serif" font-size="11">'
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>'
        f'<text x="{_LEFT}" y="14" font-weight="bold">{escape(title)}</text>{upper}{lower}</svg>\n'
    )


def _turn_of(name: str) -> int:
    return int(name.removeprefix(BY_TURN))


def _series(rows: Sequence[Mapping[str, Any]], name: str, label: str) -> Series:
    found = [(float(row["step"]), float(row[name])) for row in rows if name in row]
    return Series(label, *np.array(found).T)


def _smooth(series: Series) -> Series:
    if len(series.steps) < _SMOOTH_FROM:
        return series
    return Series(series.name, series.steps, running_mean(series.values))


def _apart(heights: Sequence[float]) -> list[float]:
    """Heights of labels, each moved up where it would touch one below it.

    Examples:
        >>> _apart([100.0, 98.0, 50.0])
        [100.0, 88.0, 50.0]
    """
    placed = list(heights)
    lowest = sorted(range(len(placed)), key=lambda place: -placed[place])
    for below, above in pairwise(lowest):
        placed[above] = min(placed[above], placed[below] - _LINE)
    return placed


def _panel(series: Sequence[Series], top: float, heading: str, *, percent: bool = False) -> str:
    """Curves over steps with axes, and each curve's name where it ends."""
    high = 1.0 if percent else max(float(each.values.max()) for each in series)
    ticks = nice_ticks(0.0, high)
    first = min(float(each.steps[0]) for each in series)
    last = max(float(each.steps[-1]) for each in series)
    above, below = top + _TOP, top + _PANEL - _FOOT

    def x(steps: Floats) -> Floats:
        return _LEFT + (_RIGHT - _LEFT) * (steps - first) / ((last - first) or 1.0)

    def y(values: Floats) -> Floats:
        return below - (below - above) * values / ticks[-1]

    drawn = f'<text x="{_LEFT}" y="{top + 28}" fill="#444">{escape(heading)}</text>'
    for tick, at in zip(ticks, y(np.array(ticks)).tolist(), strict=True):
        text = f"{100 * tick:g} %" if percent else f"{tick:,.0f}"
        drawn += (
            f'<path d="M{_LEFT} {at:.1f}H{_RIGHT}" stroke="#ddd"/>'
            f'<text x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{text}</text>'
        )
    ends = [float(y(each.values)[-1]) for each in series]
    for place, (each, label) in enumerate(zip(series, _apart(ends), strict=True)):
        color = _COLORS[place % len(_COLORS)]
        across, down = x(each.steps).tolist(), y(each.values).tolist()
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, down, strict=True))
        shown = format_value(float(each.values[-1]), percent)
        drawn += (
            f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.5"/>'
            f'<circle cx="{across[-1]:.1f}" cy="{down[-1]:.1f}" r="2" fill="{color}"/>'
            f'<text x="{across[-1] + 5:.1f}" y="{label + 4:.1f}" fill="{color}">{shown}'
            f"<title>{escape(each.name)}: {shown} at step {each.steps[-1]:g}</title></text>"
        )
    legend = "".join(
        f'<tspan fill="{_COLORS[place % len(_COLORS)]}"> {escape(each.name)} </tspan>'
        for place, each in enumerate(series)
    )
    return (
        f'{drawn}<text x="{_LEFT}" y="{below + 16}">{first:g}</text>'
        f'<text x="{(_LEFT + _RIGHT) / 2}" y="{below + 16}" text-anchor="middle">step</text>'
        f'<text x="{_RIGHT}" y="{below + 16}" text-anchor="end">{last:g}</text>'
        f'<text x="{_LEFT}" y="{below + 30}" xml:space="preserve">{legend}</text>'
    )
