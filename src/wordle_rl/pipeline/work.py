"""State that the stages of a run share, and their durations."""

from __future__ import annotations

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
from wordle_rl.pipeline.memory import StageMemory, memory_now
from wordle_rl.pipeline.push import HubPusher
from wordle_rl.runs import VALIDATION_SECRETS_FILE, Run, read_object, write_json, write_jsonl
from wordle_rl.runs.distributed import is_first
from wordle_rl.runs.lineage import Lineage, TrainedSecrets, lesson_of
from wordle_rl.runs.progress import ProgressCallback, show_progress
from wordle_rl.runs.provenance import peak_memory_gib
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
