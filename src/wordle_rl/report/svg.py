"""Charts as SVG, drawn by matplotlib.

On the page the style sheet gives the colours of light and dark mode. Charts in files of their own are white. matplotlib
is imported with the first chart, since that takes most of a second.
"""

from __future__ import annotations

import functools
import io
import logging
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wordle_rl.report.run_record import ReportError
from wordle_rl.runs import BY_TURN, is_number
from wordle_rl.runs.progress import in_percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]

COLORS = ("#5b7aa8", "#1a7f3c", "#c2571a", "#8a4fb0", "#a67a10", "#c23b5e", "#16818c", "#6a6f76")
"""Colour of each series in light mode: `--c0` to `--c7` of the style sheet."""
_MUTED, _RULE = "#646b73", "#e2e0d8"
DASHES = ((), (7, 3), (2, 3), (9, 3, 2, 3), (4, 4), (12, 4), (1, 4), (6, 2, 1, 2, 1, 2))
"""Dash pattern of each series, so that colour is not the only difference."""
MAX_POINTS = 300
"""Most points per curve; longer curves are averaged."""
_SMOOTH_FROM = 40


@dataclass(frozen=True, eq=False)
class Series:
    """One curve: `values` over `steps`, both of shape (n,), n >= 1, finite, steps rising."""

    name: str
    steps: Floats
    values: Floats

    @property
    def bold(self) -> Floats:
        """The bold line: the running mean of many values, or the values themselves, shape (n,)."""
        return running_mean(self.values) if len(self.values) >= _SMOOTH_FROM else self.values

    @property
    def is_flat(self) -> bool:
        """True if the values differ by less than a thousandth, which no axis can show."""
        return bool(np.ptp(self.values) <= 1e-3 * np.abs(self.values).max())


def line_chart(
    label: str,
    series: Sequence[Series],
    *,
    percent: bool = False,
    axis: str = "step",
    size: tuple[int, int] = (340, 190),
) -> str:
    """Draw curves over steps for the page, at most as many as there are COLORS: values faint, running means bold.

    `label` says what is seen to readers who do not see it. `percent` shows rates of 0 to 1 in percent.
    """
    with _style(label):
        figure, [axes] = _figure(size)
        for place, curve in enumerate(series):
            thin = thinned(curve)  # a page holds dozens of charts
            _curve(axes, thin, place, marker="o" if len(thin.steps) == 1 else None)
        _scale(axes, percent=percent)
        axes.set_xlabel(axis, color=_MUTED)
        return _inline(figure, label)


def bar_chart(label: str, groups: Sequence[str], shares: Mapping[str, Sequence[float]]) -> str:
    """Draw grouped bars for the page, from each player's share of every group, 0 to 1."""
    with _style(label):
        figure, [axes] = _figure((480, 210))
        width = 0.8 / len(shares)
        for place, (player, heights) in enumerate(shares.items()):
            middle = np.arange(len(groups)) + width * (place - (len(shares) - 1) / 2)
            axes.bar(middle, heights, 0.92 * width, color=COLORS[place % len(COLORS)], label=player)
        axes.set_xticks(range(len(groups)), groups)
        _scale(axes, percent=True, from_zero=True, steps=False)
        return _inline(figure, label)


def wins_plot(metrics: Mapping[str, Sequence[Mapping[str, Any]]], title: str) -> str:
    """Draw an SVG file with cumulative wins and the win rate by turn over the steps of a training."""
    counted = {stage: rows for stage, rows in metrics.items() if any("cumulative_wins" in row for row in rows)}
    if not counted:
        raise ReportError("metrics.jsonl counts no wins of training games; name a run that was trained by GRPO")
    stage, rows = list(counted.items())[-1]  # the last training of the run
    found = series_of(rows)
    by_turn = {name.removeprefix(BY_TURN): curve for name, curve in found.items() if name.startswith(BY_TURN)}
    with _style(title):
        num_panels = 2 if by_turn else 1
        figure, axes = _figure((640, 250 * num_panels), num_panels)
        axes[0].set_title(f"{title}\n{stage}: training games won since the start", loc="left", fontsize=11)
        wins = found["cumulative_wins"]
        axes[0].plot(wins.steps, wins.values, color=COLORS[1], linewidth=2, clip_on=False)
        _scale(axes[0], from_zero=True)
        if by_turn:
            heading = "share of a step's games won by this turn, of those whose secret is an answer"
            axes[1].set_title(heading, loc="left", fontsize=11)
            for place, turn in enumerate(sorted(by_turn, key=int)):
                _curve(axes[1], by_turn[turn], place, faint=False, label=f"turn {turn}")
            _scale(axes[1], percent=True, from_zero=True)
            axes[1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, reverse=True)
        axes[-1].set_xlabel("step")
        return _svg(figure)


STEPS = ("step", "global_step", "_step")
"""Names, in any case, of the column that `table_plot` draws the others over."""


def table_plot(rows: Iterable[Mapping[str, Any] | None], title: str) -> str:
    """Draw an SVG file with a panel for each column of numbers of a table, over its column of steps.

    Rows of several stages (a column `stage`) have panels of their own. The last value of a step counts, since a resumed
    training logs steps again. Columns of a single value, and level ones, are left out if others are left.
    """
    points: dict[str, dict[float, float]] = {}
    for row in rows:
        numbers = {name: number for name, value in (row or {}).items() if is_number(number := _number(value))}
        steps = [numbers.pop(name) for name in list(numbers) if name.lower() in STEPS]
        stage = f"{row['stage']}: " if row and isinstance(row.get("stage"), str) else ""
        for name, value in numbers.items() if steps else ():
            points.setdefault(stage + name, {})[steps[0]] = value
    curves = [Series(name, *np.array(sorted(found.items())).T) for name, found in points.items()]
    curves = [curve for curve in curves if not curve.is_flat] or curves
    if not curves:
        raise ReportError(f"{title} has no row with a step and another number; name its column of steps `step`")
    with _style(title):
        figure, axes = _figure((640, 160 * len(curves)), len(curves))
        for place, (panel, curve) in enumerate(zip(axes, curves, strict=True)):
            panel.set_title(curve.name, loc="left", fontsize=11)
            thin = thinned(curve)
            _curve(panel, thin, place, marker="o" if len(thin.steps) == 1 else None)
            _scale(panel, percent=curve.name.endswith("_rate"))
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        axes[-1].set_xlabel("step")
        return _svg(figure)


def _number(value: object) -> object:
    # A cell of a CSV is text.
    with suppress(ValueError):
        return float(value) if isinstance(value, str) else value
    return None


def series_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Series]:
    """Return the finite values of each metric of a stage, in order of first appearance."""
    points: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        for name, value in row.items():
            if is_number(value):
                points.setdefault(name, []).append((float(row["step"]), float(value)))
    return {name: Series(name, *np.array(found).T) for name, found in points.items()}


def thinned(curve: Series) -> Series:
    """Average a curve down to at most MAX_POINTS points."""
    if len(curve.steps) <= MAX_POINTS:
        return curve
    # Means over pieces of equal length, so that no spike is lost and none is invented.
    starts = np.linspace(0, len(curve.steps), MAX_POINTS, endpoint=False).astype(int)
    counts = np.diff(np.append(starts, len(curve.steps)))
    steps = curve.steps[np.append(starts[1:], len(curve.steps)) - 1]
    steps[0] = curve.steps[0]  # the curve still begins where the run did
    return Series(curve.name, steps, np.add.reduceat(curve.values, starts) / counts)


def running_mean(values: Floats) -> Floats:
    """Average over a centred window of a tenth of the values, shorter at the ends; same shape."""
    reach = max(1, len(values) // 20)
    # Differences of cumulative sums: every window in one pass.
    sums = np.concatenate([[0.0], np.cumsum(values)])
    place = np.arange(len(values))
    begin, end = np.maximum(place - reach, 0), np.minimum(place + reach + 1, len(values))
    means: Floats = (sums[end] - sums[begin]) / (end - begin)
    return means


def format_value(value: float, percent: bool = False) -> str:
    """Format a number: percent as `in_percent`, integers without decimals, others with three digits."""
    if percent:
        return f"{in_percent(value)} %"
    if abs(value) < 1e-12:  # a rounding error of zero
        return "0"
    if value == int(value) and abs(value) < 1e7:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


@functools.cache
def _matplotlib() -> ModuleType:
    """Import matplotlib without a trace: at its first import it writes settings and a cache of fonts to the home."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it reports the making of its font cache as a warning
    own_place = "MPLCONFIGDIR" in os.environ
    with tempfile.TemporaryDirectory() as place:
        os.environ.setdefault("MPLCONFIGDIR", place)
        try:
            import matplotlib.font_manager
        finally:
            if not own_place:
                del os.environ["MPLCONFIGDIR"]
    return matplotlib


def _style(label: str) -> Any:
    # Element ids depend only on `label`, so the same data give the same SVG.
    return _matplotlib().rc_context(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": label,
            "text.usetex": False,
            "font.size": 11,
            "axes.edgecolor": _RULE,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.spines.left": False,
            "axes.axisbelow": True,
            "grid.color": _RULE,
            "xtick.major.size": 0,
            "ytick.major.size": 0,
            "xtick.labelcolor": _MUTED,
            "ytick.labelcolor": _MUTED,
        }
    )


def _figure(size: tuple[int, int], panels: int = 1) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    # 72 points to the inch, so a unit of the SVG is a pixel.
    figure = Figure((size[0] / 72, size[1] / 72), layout="constrained")
    axes = figure.subplots(panels, squeeze=False)[:, 0].tolist()
    for each in axes:
        each.grid(axis="y")
    return figure, axes


def _curve(axes: Axes, curve: Series, place: int, *, faint: bool = True, **keywords: Any) -> None:
    color, dashes = COLORS[place % len(COLORS)], DASHES[place % len(DASHES)]
    if faint and len(curve.values) >= _SMOOTH_FROM:
        axes.plot(curve.steps, curve.values, color=color, linewidth=1, alpha=0.3, clip_on=False)
    style = (0, dashes) if dashes else "solid"
    axes.plot(curve.steps, curve.bold, color=color, linewidth=2, linestyle=style, clip_on=False, **keywords)


def _scale(axes: Axes, *, percent: bool = False, from_zero: bool = False, steps: bool = True) -> None:
    # About four round ticks; rates stay within 0 to 1.
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    low, high = axes.dataLim.intervaly
    low = 0.0 if from_zero else low
    room = 0.06 * (high - low) or (0.02 if percent else 0.05 * abs(high) or 1.0)
    low, high = (low if from_zero else low - room), high + room
    axes.set_ylim(max(low, 0.0) if percent else low, min(high, 1.0) if percent else high)
    axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    scale, unit = (100, " %") if percent else (1, "")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_value(scale * value) + unit))
    if steps:
        first, last = axes.dataLim.intervalx
        axes.set_xlim(first, last if last > first else first + 1)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_value(value)))


def _svg(figure: Figure, *, transparent: bool = False) -> str:
    text = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(text, format="svg", metadata=nothing, transparent=transparent)
    return text.getvalue()


def _inline(figure: Figure, label: str) -> str:
    # For the page: without the declaration of an XML file, and in the colours of its style sheet.
    drawn = _svg(figure, transparent=True)
    drawn = drawn[drawn.index("<svg") :]
    for name, color in {"muted": _MUTED, "rule": _RULE, **{f"c{i}": color for i, color in enumerate(COLORS)}}.items():
        drawn = drawn.replace(color, f"var(--{name})")
    return f'<div class="drawing" role="img" aria-label="{escape(label)}">{drawn}</div>'
