"""Readings of what processes hold over a long run: their growth, and their plot."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np


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


def draw(readings: Sequence[Reading], unit: str) -> str:
    """Memory, threads and files over a run as SVG, each from zero to a fifth above its most."""
    width, height, left, bottom = 640, 200, 60, 160
    last = readings[-1].done
    drawn = ""
    colours = (("memory_mib", "#1f6f43", "MiB"), ("threads", "#b8860b", "threads"), ("files", "#555", "open files"))
    for place, (name, colour, said) in enumerate(colours):
        values = [getattr(r, name) for r in readings]
        top = 1.2 * max(values)
        x = [left + (width - left - 20) * r.done / last for r in readings]
        points = " ".join(f"{a:.1f},{bottom - 130 * v / top:.1f}" for a, v in zip(x, values, strict=True))
        drawn += f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        told = f"{said}: {min(values):,.0f} to {max(values):,.0f}"
        drawn += f'<text x="{left + 190 * place}" y="20" fill="{colour}">{told}</text>'
    drawn += f'<path d="M{left} {bottom}H{width - 20}" stroke="#999"/>'
    drawn += f'<text x="{left}" y="{bottom + 18}">0</text>'
    drawn += f'<text x="{width - 20}" y="{bottom + 18}" text-anchor="end">{last:,.0f} {unit}</text>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" font-family="sans-serif" '
        f'font-size="12" aria-label="Resources over {last:,.0f} {unit}"><rect width="{width}" height="{height}" '
        f'fill="#fff"/>{drawn}</svg>\n'
    )
