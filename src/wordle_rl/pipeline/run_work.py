"""State that the stages of a run share, and how long they took and how much memory."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from wordle_rl.config.context import GameContext
from wordle_rl.config.run import RunConfig
from wordle_rl.pipeline.push import HubPusher
from wordle_rl.runs import VALIDATION_SECRETS_FILE, Run, read_object, write_json, write_jsonl
from wordle_rl.runs.distributed import is_first
from wordle_rl.runs.lineage import Lineage, TrainedSecrets, lesson_of, save_lineage, trained_further
from wordle_rl.runs.progress import ProgressCallback, show_progress
from wordle_rl.runs.provenance import main_memory_bytes, peak_memory_gib, resident_memory_gib
from wordle_rl.runs.run import Tracking
from wordle_rl.train.starts_file import ValidationFile


@dataclass
class RunWork:
    """State of a run in progress.

    Attributes:
        lesson: The secrets that its models are trained on.
        validation: The secrets for checkpoint selection, and the file they come from, if any.
        peak_memory_gib: Peak of main memory over all stages.
        memory: Memory of each training stage.
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
        """Create the state of a run; with `overwrite`, ignore what the directory holds."""
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

    def lineage_from(self, base: Path, teacher: Path | None = None) -> Lineage:
        """Return the lineage of the next training, which begins with `base` and may learn from a teacher's model.

        Every model that the training saves on its way gets it, too.
        """
        lineage = trained_further(base, self.config.game, self.lesson)
        if teacher is not None:
            lineage = lineage.taught_by(teacher)
        self.run.describe_model = partial(save_lineage, lineage=lineage)
        if self.pusher is not None:
            self.run.on_checkpoint = self.pusher.send_checkpoint
        return lineage

    def tell(self, line: str) -> None:
        """Print one line as it is."""
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def remember(self) -> None:
        """Load the times and the memory of earlier calls."""
        if self._timings.is_file():
            spent = read_object(self._timings)
            self.run.seconds, self.peak_memory_gib = spent["seconds"], spent["peak_memory_gib"]
            self.run.processor_seconds = spent.get("processor_seconds", {})
            self.memory = spent.get("memory", {})

    def keep_validation(self) -> None:
        """Store the secrets of GRPO's validation_file in the run."""
        path, found = self.directory / VALIDATION_SECRETS_FILE, self.validation.found
        if found is not None and not path.is_file():
            write_jsonl(path, ({"secret": secret} for secret in found.secrets))
            self.tell(f"validation: {found.counted()}")

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
        self.tell(f"{before.device}: {before.total_gib:.3f} GiB in all, {before.taken_gib:.3f} GiB reserved")
        with self.stage(name, title, 0, done) as tell:
            yield tell
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
        if is_first():
            self._store()

    def _store(self) -> None:
        spent = {
            "seconds": self.run.seconds,
            "processor_seconds": self.run.processor_seconds,
            "peak_memory_gib": self.peak_memory_gib,
        }
        write_json(self._timings, spent | ({"memory": self.memory} if self.memory else {}))

    @property
    def _timings(self) -> Path:
        return self.directory / "timings.json"


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
