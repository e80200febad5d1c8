"""Curves as inline SVG: a faint line for every value, a bold one for their running mean, a caption with the numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import numpy.typing as npt

from wordle_rl.runs.progress import in_percent

Floats = npt.NDArray[np.float64]

MAX_POINTS = 300
"""Values drawn per curve; longer ones are averaged down to it."""
NUM_COLORS = 8
"""Series that have a colour and a dash pattern of their own."""
_SMOOTH_FROM = 40
_WIDTH, _HEIGHT = 340, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 330, 10, 164
_TICKS = 4
_FLAT = 1e-3
"""Values that differ by a smaller fraction are drawn as a flat line: the axis has no room for the digits."""


@dataclass(frozen=True, eq=False)
class Series:
    """One curve: `values` over `steps`, both of shape (n,), n >= 1, finite, steps rising."""

    name: str
    steps: Floats
    values: Floats


def line_chart(
    title: str,
    note: str,
    series: Sequence[Series],
    *,
    percent: bool = False,
    smooth: bool = True,
    log: bool = False,
    axis: str = "step",
) -> str:
    """Draw curves over steps as a `<figure>`.

    Args:
        title: Heading.
        note: One sentence that says what is seen.
        series: At least one curve; more than one are distinguished by colour, dashes and a legend.
        percent: Whether values are rates of 0 to 1, shown in percent.
        smooth: Whether values are noisy, so that a running mean helps the eye.
        log: Whether equal ratios are drawn equally high; values must be positive.
        axis: What the steps are.
    """
    drawn = [_thin(curve) for curve in series]
    low, high = min(c.values.min() for c in drawn), max(c.values.max() for c in drawn)
    if percent and low == high:
        low, high = max(0.0, low - 0.05), min(1.0, high + 0.05)  # a flat rate has no room above 100 %
    if not percent and not log and high - low < _FLAT * max(abs(low), abs(high)):
        low = high = (low + high) / 2
    ticks = log_ticks(low, high) if log else nice_ticks(low, high)
    first, last = min(c.steps[0] for c in drawn), max(c.steps[-1] for c in drawn)
    frame = _Frame(float(first), float(last), ticks[0], ticks[-1], log)
    curves = "".join(_curve(curve, frame, place, smooth) for place, curve in enumerate(drawn))
    label = "; ".join(_summary(curve, percent) for curve in series)
    data = [
        {"n": c.name, "x": c.steps.tolist(), "y": [float(f"{value:.5g}") for value in c.values.tolist()]} for c in drawn
    ]
    return (
        f'<figure class="chart"><figcaption><h3>{escape(title)}</h3><p>{escape(note)}</p></figcaption>'
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(f"{title}: {label}")}" '
        f'data-frame="{_LEFT},{_RIGHT},{_TOP},{_BOTTOM},{frame.first:g},{frame.last:g},{frame.low:g},{frame.high:g}" '
        f'data-percent="{int(percent)}" data-series="{escape(json.dumps(data, separators=(",", ":")))}">'
        f"{_axes(frame, ticks, percent, axis)}{curves}</svg>{_legend(series, percent)}</figure>"
    )


def bar_of_shares(parts: Sequence[tuple[str, float]], unit: str) -> str:
    """One bar cut into shares, largest first, with a table of the amounts beneath. Amounts must be positive."""
    ordered = sorted(parts, key=lambda part: -part[1])
    total = sum(amount for _, amount in ordered)
    pieces = "".join(
        f'<span class="c{place % NUM_COLORS}" style="flex:{amount / total:.6f}" '
        f'title="{escape(name)}: {format_value(amount)} {unit}"></span>'
        for place, (name, amount) in enumerate(ordered)
    )
    rows = "".join(
        f'<tr><td><i class="swatch c{place % NUM_COLORS}"></i>{escape(name)}</td>'
        f"<td>{format_value(amount)} {unit}</td><td>{in_percent(amount / total)} %</td></tr>"
        for place, (name, amount) in enumerate(ordered)
    )
    return f'<div class="shares" aria-hidden="true">{pieces}</div><table class="amounts"><tbody>{rows}</tbody></table>'


def nice_ticks(low: float, high: float) -> list[float]:
    """Rising round numbers, about four steps, that enclose both ends.

    Examples:
        >>> nice_ticks(0.0, 1.0)
        [0.0, 0.25, 0.5, 0.75, 1.0]
        >>> nice_ticks(3.0, 3.0)[0] < 3.0 < nice_ticks(3.0, 3.0)[-1]
        True
    """
    if high - low <= max(1e-6 * max(abs(low), abs(high)), 1e-30):  # as good as flat, and too close to name apart
        pad = abs(low) / 2 or 0.5
        low, high = low - pad, high + pad
    power = 10.0 ** math.floor(math.log10((high - low) / _TICKS))
    step = next(size * power for size in (1, 2, 2.5, 5, 10) if size * power * _TICKS >= (high - low) * (1 - 1e-9))
    start, stop = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{place * step:.10g}") for place in range(start, stop + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Rising round numbers at about equal ratios that enclose both ends, which are positive and differ.

    Examples:
        >>> log_ticks(0.137, 14.9)
        [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0]
        >>> log_ticks(0.0003, 4.0)
        [0.0001, 0.001, 0.01, 0.1, 1.0, 10.0]
    """
    bottom, top = math.floor(math.log10(low)), math.ceil(math.log10(high))
    sizes = (1, 2, 5) if top - bottom < _TICKS else (1,)
    powers = range(bottom - 1, top + 2)  # logarithms are rounded
    ticks = [float(f"{size * 10.0**power:.10g}") for power in powers for size in sizes]
    first = max(place for place, tick in enumerate(ticks) if tick <= low)
    last = min(place for place, tick in enumerate(ticks) if tick >= high)
    return ticks[first : last + 1]


def format_value(value: float, percent: bool = False, digits: int = 3) -> str:
    """A number as a reader wants it: percent as `in_percent` has it, whole numbers whole, others to `digits` digits."""
    if percent:
        return f"{in_percent(value)} %"
    if abs(value) < 1e-12:  # what rounding leaves of zero
        return "0"
    if value == int(value) and abs(value) < 1e7:
        return f"{int(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


@dataclass(frozen=True)
class _Frame:
    """The values at the borders of the plot."""

    first: float
    last: float
    low: float
    high: float
    log: bool = False

    def x(self, steps: Floats) -> Floats:
        """Steps to drawing units."""
        span = self.last - self.first
        share: Floats = (steps - self.first) / span if span else np.full(len(steps), 0.5)
        return _LEFT + (_RIGHT - _LEFT) * share

    def y(self, values: Floats) -> Floats:
        """Values to drawing units; the frame is never flat."""
        low, high = self.low, self.high
        if self.log:
            values, low, high = np.log(values), math.log(low), math.log(high)
        share: Floats = (values - low) / (high - low)
        return _BOTTOM - (_BOTTOM - _TOP) * share


def _thin(curve: Series) -> Series:
    """At most MAX_POINTS points, each the mean of its neighbours."""
    if len(curve.steps) <= MAX_POINTS:
        return curve
    starts = np.linspace(0, len(curve.steps), MAX_POINTS, endpoint=False).astype(int)
    counts = np.diff(np.append(starts, len(curve.steps)))
    ends = np.append(starts[1:], len(curve.steps)) - 1
    steps = curve.steps[ends]
    steps[0] = curve.steps[0]  # the curve still begins where the run did
    return Series(curve.name, steps, np.add.reduceat(curve.values, starts) / counts)


def time_bar(title: str, seconds: Sequence[tuple[str, float]]) -> str:
    """Parts of a time, in seconds, as one bar with a title; empty if there are none."""
    positive = [(name, amount) for name, amount in seconds if amount > 0]
    return f"<div class='card wide'><h3>{title}</h3>{bar_of_shares(positive, 's')}</div>" if positive else ""


def running_mean(values: Floats) -> Floats:
    """Mean over a centred window of a tenth of the values, shorter at the ends; shape kept."""
    reach = max(1, len(values) // 20)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    place = np.arange(len(values))
    begin, end = np.maximum(place - reach, 0), np.minimum(place + reach + 1, len(values))
    means: Floats = (sums[end] - sums[begin]) / (end - begin)
    return means


def _curve(curve: Series, frame: _Frame, place: int, smooth: bool) -> str:
    x, color = frame.x(curve.steps), place % NUM_COLORS
    if len(x) == 1:
        return f'<circle class="s{color}" cx="{x[0]:.1f}" cy="{frame.y(curve.values)[0]:.1f}" r="3"/>'
    if len(x) < _SMOOTH_FROM or not smooth:
        return _path(x, frame.y(curve.values), f"line s{color}")
    mean = _path(x, frame.y(running_mean(curve.values)), f"line s{color}")
    return _path(x, frame.y(curve.values), f"raw s{color}") + mean


def _path(x: Floats, y: Floats, css_class: str) -> str:
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True))
    return f'<polyline class="{css_class}" points="{points}"/>'


def _axes(frame: _Frame, ticks: Sequence[float], percent: bool, axis: str) -> str:
    heights = frame.y(np.array(ticks)).tolist()
    # Whole percents on the axis unless the ticks are closer together than that.
    digits = next((n for n in range(6) if all(abs(100 * tick - round(100 * tick, n)) < 1e-6 for tick in ticks)), 6)
    enough = next((n for n in range(3, 8) if len({_short(tick, n) for tick in ticks}) == len(ticks)), 8)
    lines = "".join(
        f'<line class="rule" x1="{_LEFT}" x2="{_RIGHT}" y1="{height:.1f}" y2="{height:.1f}"/>'
        f'<text x="{_LEFT - 6}" y="{height + 3.5:.1f}" text-anchor="end">'
        f"{f'{100 * tick:.{digits}f} %' if percent else _short(tick, enough)}</text>"
        for tick, height in zip(ticks, heights, strict=True)
    )
    foot = _BOTTOM + 18
    return (
        f'{lines}<text x="{_LEFT}" y="{foot}">{format_value(frame.first)}</text>'
        f'<text x="{(_LEFT + _RIGHT) / 2}" y="{foot}" text-anchor="middle">{escape(axis)}</text>'
        f'<text x="{_RIGHT}" y="{foot}" text-anchor="end">{format_value(frame.last)}</text>'
    )


def _short(tick: float, digits: int) -> str:
    """A tick of the axis in at most six characters or so: 12,500 stays, 250,000 becomes 250k."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(tick) >= max(size, 1e5):
            return f"{tick / size:g}{unit}"
    return format_value(tick, digits=digits)


def _legend(series: Sequence[Series], percent: bool) -> str:
    """First and last values, so that the numbers can be read as text too, and the dashes that tell curves apart."""
    rows = ""
    for place, curve in enumerate(series):
        key = ""
        if len(series) > 1:
            line = f'<line class="line s{place % NUM_COLORS}" x1="0" x2="22" y1="3" y2="3"/>'
            key = f'<svg class="key" viewBox="0 0 22 6" aria-hidden="true">{line}</svg>{escape(curve.name)} '
        first, last = (format_value(float(value), percent) for value in (curve.values[0], curve.values[-1]))
        rows += f"<li>{key}<b>{first} → {last}</b></li>"
    return f'<ul class="legend">{rows}</ul><output class="readout"></output>'


def _summary(curve: Series, percent: bool) -> str:
    first, last = (format_value(float(value), percent) for value in (curve.values[0], curve.values[-1]))
    return f"{curve.name} from {first} at step {curve.steps[0]:g} to {last} at step {curve.steps[-1]:g}"
