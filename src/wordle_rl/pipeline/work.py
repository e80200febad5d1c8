"""State that the stages of a run share, and how long they took and how much memory."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from wordle_rl.config import RunConfig
from wordle_rl.config.context import GameContext
from wordle_rl.pipeline.push import HubPusher
from wordle_rl.runs import VALIDATION_SECRETS_FILE, Run, read_object, write_json, write_jsonl
from wordle_rl.runs.distributed import is_first
from wordle_rl.runs.lineage import Lineage, TrainedSecrets, lesson_of
from wordle_rl.runs.progress import ProgressCallback, show_progress
from wordle_rl.runs.provenance import main_memory_bytes, peak_memory_gib, resident_memory_gib
from wordle_rl.runs.trackers import Tracking
from wordle_rl.train.starts_file import ValidationFile


@dataclass
class RunWork:
    """State of a run in progress.

    Attributes:
        config: All settings.
        console: Shows progress.
        context: Words, split, prompts and solver.
        lesson: The secrets that its models are trained on.
        run: The run directory.
        validation: The secrets for checkpoint selection, and the file they come from, if any.
        peak_memory_gib: Peak of main memory over all stages.
        memory: Memory of each training stage, see `StageMemory.row`.
        pusher: Pushes checkpoints to the hub, if set.
    """

    config: RunConfig
    console: Console
    context: GameContext
    lesson: TrainedSecrets
    run: Run
    validation: ValidationFile
    peak_memory_gib: float = 0.0
    memory: dict[str, dict[str, Any]] = field(default_factory=dict)
    pusher: HubPusher | None = None

    @classmethod
    def of(cls, config: RunConfig, directory: Path, console: Console, *, overwrite: bool = False) -> RunWork:
        """Create the state of a run; with `overwrite`, ignore what the directory holds.

        Raises:
            RunError: If a line of grpo.validation_file has no secret.
            ConfigError: If none of its secrets can be used.
        """
        validation = ValidationFile.of(config, None if overwrite else directory)
        context = validation.context
        return cls(config, console, context, lesson_of(config.words, context.split), Run(directory), validation)

    def open(self, run: Run) -> None:
        """Use a run directory that was created."""
        self.run = run
        run.tracking = Tracking.named(run.directory, self.config.report_project, self.config.trackio_space)

    @property
    def directory(self) -> Path:
        """The run directory."""
        return self.run.directory

    def expect(self, lineage: Lineage) -> None:
        """Set the lineage to push with checkpoints of the next training."""
        if self.pusher is not None:
            self.run.on_checkpoint = partial(self.pusher.send_checkpoint, lineage)

    def remember(self) -> None:
        """Load the times and the memory of earlier calls."""
        if self._timings.is_file():
            spent = read_object(self._timings)
            self.run.seconds, self.peak_memory_gib = spent["seconds"], spent["peak_memory_gib"]
            self.memory = spent.get("memory", {})

    def keep_validation(self) -> None:
        """Store the secrets of grpo.validation_file in the run."""
        path, found = self.directory / VALIDATION_SECRETS_FILE, self.validation.found
        if found is not None and not path.is_file():
            write_jsonl(path, ({"secret": secret} for secret in found.secrets))
            self.console.print(f"validation: {found.counted()}", markup=False, highlight=False)

    @contextmanager
    def stage(self, name: str, title: str, total: int, done: int = 0) -> Iterator[ProgressCallback]:
        """Time a stage and show its progress."""
        try:
            with show_progress(self.console, title, total, done=done) as tell, self.run.stage(name):
                yield tell
        finally:
            self.peak_memory_gib = max(self.peak_memory_gib, peak_memory_gib())
            if is_first():
                self._store()

    @contextmanager
    def training(self, name: str, title: str, done: int = 0) -> Iterator[ProgressCallback]:
        """Run a training stage: print its memory before, its time and memory afterwards, and store both."""
        before, started = memory_now(reset_peak=True), time.perf_counter()
        self._print(before.line())
        with self.stage(name, title, 0, done) as tell:
            yield tell
        taken = StageMemory(before, memory_now())
        self._print(taken.line(name, time.perf_counter() - started))
        self.memory[name] = taken.row()
        if is_first():
            self._store()

    def _print(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _store(self) -> None:
        spent = {"seconds": self.run.seconds, "peak_memory_gib": self.peak_memory_gib}
        write_json(self._timings, spent | ({"memory": self.memory} if self.memory else {}))

    @property
    def _timings(self) -> Path:
        return self.directory / "timings.json"


_GIB = 1024**3


@dataclass(frozen=True)
class MemoryNow:
    """Memory of this process, in GiB.

    Attributes:
        device: Name of the GPU, or `main memory`.
        total_gib: Memory of the device; 0: unknown.
        taken_gib: Memory in use now.
        peak_gib: Peak: on a GPU since `memory_now(reset_peak=True)`, elsewhere since the process began.
    """

    device: str
    total_gib: float
    taken_gib: float
    peak_gib: float

    def line(self) -> str:
        """Describe the device and the memory in use, for the start of a stage.

        Examples:
            >>> MemoryNow("NVIDIA A100", 40.0, 10.5, 10.5).line()
            'NVIDIA A100: 40.000 GiB in all, 10.500 GiB reserved'
        """
        return f"{self.device}: {self.total_gib:.3f} GiB in all, {self.taken_gib:.3f} GiB reserved"


@dataclass(frozen=True)
class StageMemory:
    """Memory before and after a stage."""

    before: MemoryNow
    after: MemoryNow

    @property
    def grown_gib(self) -> float:
        """Peak minus memory in use before."""
        return max(0.0, self.after.peak_gib - self.before.taken_gib)

    def line(self, stage: str, seconds: float) -> str:
        """Describe time and peak memory of a stage.

        Examples:
            >>> before, after = (MemoryNow("GPU", 40.0, 10.0, peak) for peak in (10.0, 36.0))
            >>> StageMemory(before, after).line("grpo", 90.0)
            'grpo: 90.0 s (1.50 min); peak 36.000 GiB, 90.0 % of GPU; 26.000 GiB of it for the stage, 65.0 %'
        """
        return (
            f"{stage}: {seconds:.1f} s ({seconds / 60:.2f} min); peak {self.after.peak_gib:.3f} GiB, "
            f"{self._share(self.after.peak_gib)} % of {self.after.device}; {self.grown_gib:.3f} GiB of it for the "
            f"stage, {self._share(self.grown_gib)} %"
        )

    def row(self) -> dict[str, Any]:
        """Return the figures for timings.json and results.json."""
        return {
            "device": self.after.device,
            "total_gib": round(self.after.total_gib, 3),
            "reserved_before_gib": round(self.before.taken_gib, 3),
            "peak_gib": round(self.after.peak_gib, 3),
            "peak_percent": self._percent(self.after.peak_gib),
        }

    def _share(self, gib: float) -> str:
        percent = self._percent(gib)
        return "–" if percent is None else f"{percent:.1f}"

    def _percent(self, gib: float) -> float | None:
        return round(100 * gib / self.after.total_gib, 1) if self.after.total_gib else None


def memory_now(*, reset_peak: bool = False) -> MemoryNow:
    """Measure the memory of this process on its device; `reset_peak` restarts the peak of a GPU."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        total = (main_memory_bytes() or 0) / _GIB
        return MemoryNow("main memory", total, resident_memory_gib() or 0.0, peak_memory_gib())
    if reset_peak:
        torch.cuda.reset_peak_memory_stats()
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return MemoryNow(
        str(properties.name),
        properties.total_memory / _GIB,
        torch.cuda.memory_reserved() / _GIB,
        torch.cuda.max_memory_reserved() / _GIB,
    )
