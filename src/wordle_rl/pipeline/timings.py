"""Time and memory of the parts of a run: shown on the console while they work, stored in timings.json."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from wordle_rl.runs import read_object, write_json
from wordle_rl.runs.distributed import is_first
from wordle_rl.runs.progress import ProgressCallback, show_progress
from wordle_rl.runs.provenance import main_memory_bytes, peak_memory_gib, resident_memory_gib


class Timings:
    """What the parts of a run took, earlier calls included.

    Attributes:
        seconds: Time of each part.
        processor_seconds: The same, of all threads of this process.
        peak_memory_gib: Peak of main memory over all parts.
        memory: Memory of each training stage.
    """

    def __init__(self, directory: Path, console: Console) -> None:
        self._path, self._console = directory / "timings.json", console
        self.seconds: dict[str, float] = {}
        self.processor_seconds: dict[str, float] = {}
        self.peak_memory_gib = 0.0
        self.memory: dict[str, dict[str, Any]] = {}

    def tell(self, line: str) -> None:
        """Print one line as it is."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def remember(self) -> None:
        """Load the times and the memory of earlier calls."""
        if self._path.is_file():
            spent = read_object(self._path)
            self.seconds, self.peak_memory_gib = spent["seconds"], spent["peak_memory_gib"]
            self.processor_seconds = spent.get("processor_seconds", {})
            self.memory = spent.get("memory", {})

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Time a part of the run, even if it is interrupted."""
        start, processor = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
            spent = self.processor_seconds.get(name, 0.0) + time.process_time() - processor
            self.processor_seconds[name] = spent

    @contextmanager
    def shown(self, name: str, title: str, total: int, done: int = 0) -> Iterator[ProgressCallback]:
        """Time a part of the run and show its progress."""
        try:
            with show_progress(self._console, title, total, done=done) as advance, self.timed(name):
                yield advance
        finally:
            self.peak_memory_gib = max(self.peak_memory_gib, peak_memory_gib())
            self._store()

    @contextmanager
    def training(self, name: str, title: str, done: int = 0) -> Iterator[ProgressCallback]:
        """Show a stage of training: its memory before, its progress, and its time and memory afterwards."""
        before, started = memory_now(reset_peak=True), time.perf_counter()
        self.tell(f"{before.device}: {before.total_gib:.3f} GiB in all, {before.taken_gib:.3f} GiB reserved")
        with self.shown(name, title, 0, done) as advance:
            yield advance
        after, seconds = memory_now(), time.perf_counter() - started
        percent = round(100 * after.peak_gib / after.total_gib, 1) if after.total_gib else None
        self.tell(
            f"{name}: {seconds:.1f} s; peak {after.peak_gib:.3f} GiB, {percent} % of {after.device}; "
            f"{max(0.0, after.peak_gib - before.taken_gib):.3f} GiB of it for the stage"
        )
        self.memory[name] = {
            "device": after.device,
            "total_gib": round(after.total_gib, 3),
            "reserved_before_gib": round(before.taken_gib, 3),
            "peak_gib": round(after.peak_gib, 3),
            "peak_percent": percent,
        }
        self._store()

    def _store(self) -> None:
        if not is_first():
            return
        spent = {
            "seconds": self.seconds,
            "processor_seconds": self.processor_seconds,
            "peak_memory_gib": self.peak_memory_gib,
        }
        write_json(self._path, spent | ({"memory": self.memory} if self.memory else {}))


class MemoryNow(NamedTuple):
    """Memory of this process on its device, in GiB. On a GPU the peak counts from the last reset."""

    device: str
    total_gib: float
    taken_gib: float
    peak_gib: float


def memory_now(*, reset_peak: bool = False) -> MemoryNow:
    """Measure the memory of this process on its device; `reset_peak` restarts the peak of a GPU."""
    gib, torch = 1024**3, sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        total = (main_memory_bytes() or 0) / gib
        return MemoryNow("main memory", total, resident_memory_gib() or 0.0, peak_memory_gib())
    if reset_peak:
        torch.cuda.reset_peak_memory_stats()
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    reserved, peak = torch.cuda.memory_reserved(), torch.cuda.max_memory_reserved()
    return MemoryNow(str(properties.name), properties.total_memory / gib, reserved / gib, peak / gib)
