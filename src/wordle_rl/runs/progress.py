"""Progress: a bar in a terminal, a plain line now and then in a log file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

LINE_EVERY_S = 30.0
"""Seconds between two plain lines, at least."""

ProgressCallback = Callable[[int, int, str], None]
"""`(done, total, message)`; total 0: unknown."""


@contextmanager
def show_progress(
    console: Console, title: str, total: int, *, done: int = 0, transient: bool = False
) -> Iterator[ProgressCallback]:
    """Show progress: a bar in a terminal; elsewhere (CI, nohup, Slurm) a line every `LINE_EVERY_S`, and a last one.

    Args:
        total: Number of units; 0: not known yet.
        done: Units done before; the estimate of the remaining time ignores them.
        transient: Remove the bar at the end; print the last line only if there were others.
    """
    if console.is_terminal or console.is_jupyter:
        columns = (
            TextColumn("{task.description:<18}", markup=False),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            _RateColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}", markup=False),
        )
        with Progress(*columns, console=console, transient=transient) as bar:
            task = bar.add_task(title, total=total or None, completed=done, note="")
            yield lambda done, total, note: bar.update(task, completed=done, total=total or None, note=note)
        return
    lines = _Lines(console, title, total, done)
    try:
        yield lines.update
    finally:
        if lines.is_new and not (transient and lines.num_printed == 0):
            lines.print()


class _RateColumn(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(_rate(1 / task.speed) if task.speed else "")


class _Lines:
    def __init__(self, console: Console, title: str, total: int, done: int) -> None:
        self._console, self._title, self._before = console, title, done
        self._now = done, total, ""
        self._start = self._last = time.monotonic()
        self.num_printed, self.is_new = 0, True

    def update(self, done: int, total: int, note: str) -> None:
        self._now, self.is_new = (done, total, note), True
        if time.monotonic() - self._last >= LINE_EVERY_S:
            self.print()

    def print(self) -> None:
        self._last = time.monotonic()
        line = progress_line(self._title, *self._now, self._last - self._start, before=self._before)
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)
        self.num_printed, self.is_new = self.num_printed + 1, False


def progress_line(title: str, done: int, total: int, note: str, seconds: float, *, before: int = 0) -> str:
    """Format progress in one line; rate and remaining time appear once two units and a hundredth have been timed.

    `before` units of `done` took none of the `seconds`; total 0 is unknown.

    Examples:
        >>> progress_line("GRPO", 25, 100, "win_rate 0.81", 600.0)
        'GRPO: 25 of 100, 10 min so far, 24 s each, 30 min left, win_rate 0.81'
        >>> progress_line("m", 2_000, 2_000, "", 42.0)
        'm: 2,000 of 2,000, 42 s so far'
    """
    parts = [f"{title}: {done:,} of {total:,}" if total else f"{title}: {done:,}", f"{in_words(seconds)} so far"]
    timed = done - before
    # Games played side by side end in bursts: the first few would forecast hours.
    if timed >= max(2, total / 100) and seconds and done < total:
        parts += [_rate(seconds / timed), f"{in_words(seconds / timed * (total - done))} left"]
    return ", ".join([*parts, note] if note else parts)


def forecast_line(title: str, unit: str, total: int, seconds: float, each: float) -> str:
    """Say how long a training takes in all: `seconds` for its first two steps, `each` for every other one.

    Examples:
        >>> forecast_line("grpo", "steps", 100, 14.0, 6.0)
        'grpo: about 10 min in all, if all 100 steps are like the second (6.0 s each); shorter games make it less'
    """
    whole = in_words(seconds + (total - 2) * each)
    like = f"if all {total:,} {unit} are like the second ({_rate(each)})"
    return f"{title}: about {whole} in all, {like}; shorter games make it less"


def elapsed(seconds: float) -> str:
    """Format seconds as minutes and seconds.

    Examples:
        >>> elapsed(245.2), elapsed(4000)
        ('4 min 5 s', '66 min 40 s')
    """
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s"


def _rate(seconds_each: float) -> str:
    if seconds_each < 1:
        return f"{1 / seconds_each:,.0f} per s"
    return f"{seconds_each:.1f} s each" if seconds_each < 10 else f"{seconds_each:.0f} s each"


def in_words(seconds: float) -> str:
    """Format seconds roughly: as seconds, minutes, or hours and minutes."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


_DUST = 1e-9
"""Rounding error of sums of floating-point numbers."""


def in_percent(rate: float, digits: int = 1) -> str:
    """Format a rate of 0 to 1 in percent, without the sign.

    It reads as 0 or 100 only if it is exactly that; otherwise it has more than `digits` decimals if needed.

    Examples:
        >>> in_percent(1999 / 2000), in_percent(1 / 3000), in_percent(1.0), in_percent(0.5)
        ('99.95', '0.03', '100.0', '50.0')
        >>> in_percent(0.996, 0), in_percent(0.994, 0)
        ('99.6', '99')
    """
    if min(abs(rate), abs(1 - rate)) < _DUST:
        return f"{100 * round(rate):.{digits}f}"
    text = f"{100 * rate:.{digits}f}"
    return in_percent(rate, digits + 1) if float(text) in (0, 100) else text
