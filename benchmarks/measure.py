"""Timing, hardware line and output, shared by the benchmark scripts."""

import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
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
        cpu_s: Processor seconds, all threads together.
        wall_s: Seconds on the clock.
        repeats: How often it ran.
        note: What came out: a size, a count, a check.
    """

    job: str
    cpu_s: float
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


def hardware() -> str:
    """Processor, cores, Python and NumPy in one line."""
    cpu = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        cpu = names[0] if names else cpu
    return f"{cpu}, {os.cpu_count()} cores, Python {platform.python_version()}, NumPy {np.__version__}"


def show(title: str, timings: Sequence[Timing], *, as_json: bool) -> None:
    """Print the timings as a table or as one JSON object."""
    if as_json:
        print(json.dumps({"title": title, "hardware": hardware(), "timings": [asdict(t) for t in timings]}, indent=2))
        return
    table = Table(title=title, caption=hardware())
    for heading in ("job", "cpu s", "wall s", "repeats", "result"):
        table.add_column(heading, justify="left" if heading in ("job", "result") else "right")
    for t in timings:
        table.add_row(t.job, f"{t.cpu_s:.4f}", f"{t.wall_s:.4f}", str(t.repeats), t.note)
    Console().print(table)
