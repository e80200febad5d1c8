"""State shared by the stages of a run, and their durations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from wordle_rl.config import RunConfig
from wordle_rl.config.context import GameContext
from wordle_rl.rl.starts_file import ValidationFile
from wordle_rl.runs import VALIDATION_SECRETS_FILE, Run, read_object, write_json, write_jsonl
from wordle_rl.runs.distributed import is_first
from wordle_rl.runs.lineage import TrainedSecrets, lesson_of
from wordle_rl.runs.progress import ProgressCallback, show_progress
from wordle_rl.runs.provenance import peak_memory_gib


@dataclass
class RunWork:
    """One run at work.

    Attributes:
        config: Every setting.
        console: Where progress is shown.
        context: Words, split, prompts and solver.
        lesson: The secrets its models are trained on.
        run: The run directory.
        validation: The secrets that checkpoints are selected by, and the file they come from, if any.
        peak_memory_gib: The most memory that a stage took.
    """

    config: RunConfig
    console: Console
    context: GameContext
    lesson: TrainedSecrets
    run: Run
    validation: ValidationFile
    peak_memory_gib: float = 0.0

    @classmethod
    def of(cls, config: RunConfig, directory: Path, console: Console, *, overwrite: bool = False) -> RunWork:
        """The work of a config; with `overwrite`, whatever the directory holds.

        Raises:
            RunError: If a line of grpo.validation_file names no secret.
            ConfigError: If none of its secrets can be used.
        """
        validation = ValidationFile.of(config, None if overwrite else directory)
        context = validation.context
        return cls(config, console, context, lesson_of(config.words, context.split), Run(directory), validation)

    @property
    def directory(self) -> Path:
        """The run directory."""
        return self.run.directory

    def remember(self) -> None:
        """Resume from the times and the memory of earlier calls."""
        if self._timings.is_file():
            spent = read_object(self._timings)
            self.run.seconds, self.peak_memory_gib = spent["seconds"], spent["peak_memory_gib"]

    def keep_validation(self) -> None:
        """Keep the secrets of grpo.validation_file in the run."""
        path, found = self.directory / VALIDATION_SECRETS_FILE, self.validation.found
        if found is not None and not path.is_file():
            write_jsonl(path, ({"secret": secret} for secret in found.secrets))
            self.console.print(f"validation: {found.counted()}", markup=False, highlight=False)

    @contextmanager
    def stage(self, name: str, title: str, total: int, done: int = 0) -> Iterator[ProgressCallback]:
        """Time a stage and show how far it is."""
        try:
            with show_progress(self.console, title, total, done=done) as tell, self.run.stage(name):
                yield tell
        finally:
            self.peak_memory_gib = max(self.peak_memory_gib, peak_memory_gib())
            if is_first():
                write_json(self._timings, {"seconds": self.run.seconds, "peak_memory_gib": self.peak_memory_gib})

    @property
    def _timings(self) -> Path:
        return self.directory / "timings.json"
