"""Timing, hardware line and output, shared by the benchmark scripts."""

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Timing:
    """Medians over the repeats of one job.

    Attributes:
        job: What was timed.
        cpu_s: Processor seconds, all threads together; None where only the clock was read.
        wall_s: Seconds on the clock.
        repeats: How often it ran.
        note: What came out: a size, a count, a check.
    """

    job: str
    cpu_s: float | None
    wall_s: float
    repeats: int
    note: str


def time_job(job: str, work: Callable[[], str], repeats: int) -> Timing:
    """Run a job several times.

    Args:
        job: Its name.
        work: Does everything that is to be timed and returns the note, which must be the same each time.
        repeats: At least 1.

    Raises:
        RuntimeError: If two repeats differ in their note.
    """
    cpu_s, wall_s, notes = [], [], set()
    for _ in range(repeats):
        cpu_start, wall_start = time.process_time(), time.perf_counter()
        notes.add(work())
        cpu_s.append(time.process_time() - cpu_start)
        wall_s.append(time.perf_counter() - wall_start)
    if len(notes) != 1:
        raise RuntimeError(f"{job} gave different results in different repeats: {sorted(notes)}")
    return Timing(job, statistics.median(cpu_s), statistics.median(wall_s), repeats, notes.pop())


@dataclass(frozen=True)
class Rate:
    """Throughput of a job, a second.

    Attributes:
        job: What was timed.
        per_s: Median over the repeats.
        lowest: Slowest repeat.
        highest: Fastest repeat.
        repeats: How often it ran.
        note: What came out: a count, a check, a ratio. For a job that could not run (all rates 0.0), why.
    """

    job: str
    per_s: float
    lowest: float
    highest: float
    repeats: int
    note: str


def rate_of(job: str, amount: float, seconds: Sequence[float], note: str) -> Rate:
    """The rate of a job that did `amount` in each of these times."""
    rates = [amount / s for s in seconds]
    return Rate(job, statistics.median(rates), min(rates), max(rates), len(rates), note)


def take_turns(jobs: Mapping[str, Callable[[], float]], repeats: int) -> dict[str, list[float]]:
    """Run jobs one after the other, round after round, so that a busy machine slows all of them alike.

    Args:
        jobs: Each does its work and returns the seconds it counts.
        repeats: Rounds, at least 1.

    Returns:
        Seconds per job, one per round.
    """
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for round_number in range(repeats):
        names = list(jobs) if round_number % 2 == 0 else list(jobs)[::-1]
        for name in names:
            seconds[name].append(jobs[name]())
    return seconds


def ratio_of(faster: Sequence[float], slower: Sequence[float]) -> float:
    """Ratio of the second job's time to the first's, by the medians."""
    return statistics.median(slower) / statistics.median(faster)


def hardware() -> str:
    """Processor, cores, Python, NumPy and, where it is in use, torch in one line."""
    cpu = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        cpu = names[0] if names else cpu
    line = f"{cpu}, {os.cpu_count()} cores, Python {platform.python_version()}, NumPy {np.__version__}"
    torch = sys.modules.get("torch")
    return line if torch is None else f"{line}, torch {torch.__version__} on {torch.get_num_threads()} threads"


def show(title: str, timings: Sequence[Timing], *, as_json: bool) -> None:
    """Print the timings as a table or as one JSON object."""
    if as_json:
        print(json.dumps({"title": title, "hardware": hardware(), "timings": [asdict(t) for t in timings]}, indent=2))
    else:
        Console().print(_timing_table(timings, title=title, caption=hardware()))


def show_rates(title: str, unit: str, rates: Sequence[Rate], timings: Sequence[Timing] = (), *, as_json: bool) -> None:
    """Print rates, in `unit` per second, and timings that go with them, as tables or as one JSON object."""
    if as_json:
        parts: dict[str, object] = {"title": title, "hardware": hardware(), "unit": f"{unit}/s"}
        parts["rates"] = [asdict(rate) for rate in rates]
        if timings:
            parts["timings"] = [asdict(timing) for timing in timings]
        print(json.dumps(parts, indent=2))
        return
    table = Table(title=title, caption=hardware())
    for heading in ("job", f"{unit}/s", "lowest", "highest", "repeats", "result"):
        left = heading in ("job", "result")
        table.add_column(heading, justify="left" if left else "right", no_wrap=heading != "result")
    for r in rates:
        figures = (f"{r.per_s:,.1f}", f"{r.lowest:,.1f}", f"{r.highest:,.1f}") if r.repeats else ("-", "-", "-")
        table.add_row(r.job, *figures, str(r.repeats), r.note)
    console = Console(width=max(Console().width, 120))
    console.print(table)
    if timings:
        console.print(_timing_table(timings))


def _timing_table(timings: Sequence[Timing], title: str | None = None, caption: str | None = None) -> Table:
    table = Table(title=title, caption=caption)
    for heading in ("job", "cpu s", "wall s", "repeats", "result"):
        table.add_column(heading, justify="left" if heading in ("job", "result") else "right")
    for t in timings:
        cpu = "-" if t.cpu_s is None else f"{t.cpu_s:.4f}"
        table.add_row(t.job, cpu, f"{t.wall_s:.4f}", str(t.repeats), t.note)
    return table
