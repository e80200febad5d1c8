"""Win rates of several evaluations with their intervals as a file of SVG, over training steps where names are steps."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from wordle_rl.evaluate import ComparedPlayer, Figures
from wordle_rl.report.html.charts import nice_ticks

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 640, 300, 52, 620, 34, 250
_STEP = re.compile(r"step[- ](\d+)")


def win_rate_plot(runs: Sequence[ComparedPlayer], title: str) -> str:
    """A point and its 95 % interval for each evaluation, in their order.

    Where the names in between are steps, `start` stands at step 0 and `end` one place after the last step, apart from
    the curve, since its weights may be those of another step.

    Args:
        runs: At least two players that were compared.
        title: Line above the plot.
    """
    places = _places([run.name for run in runs])
    rates = [_percents(run.figures) for run in runs]
    ticks = nice_ticks(min(low for _, low, _ in rates), max(high for *_, high in rates))
    first, last = min(places), max(places)

    def x(place: float) -> float:
        return _LEFT + 24 + (_RIGHT - _LEFT - 48) * (place - first) / ((last - first) or 1.0)

    def y(percent: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * (percent - ticks[0]) / (ticks[-1] - ticks[0])

    drawn = "".join(
        f'<path d="M{_LEFT} {y(tick):.1f}H{_RIGHT}" stroke="#ddd"/>'
        f'<text x="{_LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>'
        for tick in ticks
    )
    on_curve = [number for number, run in enumerate(runs) if run.name != "end"]
    curve = " ".join(f"{x(places[number]):.1f},{y(rates[number][0]):.1f}" for number in on_curve)
    drawn += f'<polyline points="{curve}" fill="none" stroke="#1f6f43" stroke-width="1.5"/>'
    for run, place, (rate, low, high) in zip(runs, places, rates, strict=True):
        name = _STEP.sub(lambda found: found[1], run.name)
        told = f"{run.name}: {rate:.1f} % ({low:.1f} to {high:.1f}), {run.figures.num_games} games"
        drawn += (
            f'<g><title>{escape(told)}</title><path d="M{x(place):.1f} {y(low):.1f}V{y(high):.1f}" stroke="#1f6f43"/>'
            f'<circle cx="{x(place):.1f}" cy="{y(rate):.1f}" r="3.5" fill="#1f6f43"/>'
            f'<text x="{x(place):.1f}" y="{_BOTTOM + 16}" text-anchor="middle">{escape(name)}</text></g>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(title)}" font-family="sans-serif" font-size="11">'
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>'
        f'<text x="{_LEFT}" y="18" font-weight="bold">{escape(title)}</text>{drawn}'
        f'<text x="{(_LEFT + _RIGHT) / 2}" y="{_HEIGHT - 12}" text-anchor="middle">'
        f"{'step' if _are_steps(runs) else ''}</text></svg>\n"
    )


def _percents(figures: Figures) -> tuple[float, float, float]:
    """Win rate and the ends of its interval."""
    return 100 * (figures.win_rate or 0), 100 * (figures.win_rate_low or 0), 100 * (figures.win_rate_high or 0)


def _are_steps(runs: Sequence[ComparedPlayer]) -> bool:
    return any(_STEP.fullmatch(run.name) for run in runs)


def _places(names: Sequence[str]) -> list[float]:
    """Place of each name: its step, or its rank if not all are steps."""
    steps = {name: float(found[1]) for name in names if (found := _STEP.fullmatch(name))}
    if not steps or not set(names) <= {"start", "end", *steps}:
        return [float(place) for place in range(len(names))]
    last = max(steps.values())
    gap = last / max(1, len(steps))
    return [steps.get(name, 0.0 if name == "start" else last + gap) for name in names]
