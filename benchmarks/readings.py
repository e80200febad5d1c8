"""Readings of what processes hold over a long run: their growth, and their plot."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure


@dataclass(frozen=True)
class Reading:
    """Resources of a process at one moment.

    Attributes:
        done: Steps, games or hours until then.
        memory_mib: Resident memory.
        threads: Threads.
        files: Open files, sockets among them.
    """

    done: float
    memory_mib: float
    threads: int
    files: int


def read(pid: int, done: float) -> Reading:
    """Read from the system what a process holds now."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    status = dict(line.split(":", 1) for line in lines if ":" in line)
    files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return Reading(round(done, 3), int(status["VmRSS"].split()[0]) / 1024, int(status["Threads"]), files)


def growth(readings: Sequence[Reading]) -> dict[str, float]:
    """Growth after the first quarter: of memory as a fraction, from end to end of its straight line; threads and files
    by the least that were open in the last quarter against the first, since what a moment needs is no growth."""
    quarter = max(1, len(readings) // 4)
    rest = readings[quarter:]
    slope, height = np.polyfit([r.done for r in rest], [r.memory_mib for r in rest], 1)
    first, last = (slope * r.done + height for r in (rest[0], rest[-1]))
    found = {"memory": float(last / first - 1)}
    for name in ("threads", "files"):
        before, after = (min(getattr(r, name) for r in part) for part in (readings[:quarter], readings[-quarter:]))
        found[name] = after / before - 1
    return found


def draw(readings: Sequence[Reading], unit: str, path: Path) -> None:
    """Plot memory, threads and files over a run as SVG, each from zero to a fifth above its most."""
    figure = Figure((9.0, 2.6), layout="constrained")
    names = {"memory_mib": "MiB", "threads": "threads", "files": "open files"}
    for axes, (name, label) in zip(figure.subplots(1, 3), names.items(), strict=True):
        values = [getattr(reading, name) for reading in readings]
        axes.plot([reading.done for reading in readings], values)
        axes.set(ylim=(0, 1.2 * max(values)), title=label, xlabel=unit)
    figure.savefig(path, format="svg", metadata={"Date": None})
