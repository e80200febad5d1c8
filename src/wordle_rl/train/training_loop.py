"""What happens around the steps of a training: metrics, progress, Ctrl-C, bad steps, checkpoints.

    loop = TrainingLoop(learner, run, "sft", directory, stop=stop)
    done, state = loop.restore()
    for step in range(done + 1, total + 1):
        update = learner.update(batches_of(step), loss, step)
        if loop.after(step, total, update, state={...}):
            break

A checkpoint holds what a resume needs: weights, optimizer, and the `state` passed here. Random draws of a step depend
on the seed and the step alone, so a resumed training ends with the same bits.
"""

from __future__ import annotations

import math
import shutil
import signal
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from safetensors import SafetensorError

from wordle_rl.runs import VALIDATED, Run, RunError, is_number
from wordle_rl.runs.distributed import gather, is_first, wait_for_all
from wordle_rl.runs.progress import ProgressCallback
from wordle_rl.runs.provenance import resident_memory_gib
from wordle_rl.runs.trackers import Tracker
from wordle_rl.train.checkpoints import (
    checkpoint_path,
    complete_checkpoint,
    drop_checkpoints,
    last_checkpoint,
    step_of,
    stored_state,
)
from wordle_rl.train.learner import Learner, Update

MAX_BAD_STEPS = 5
"""Stop a training after this many consecutive steps whose loss or gradient is not finite."""


class TrainingLoop:
    """Log and checkpoints of a training. Every process has one; only the first writes.

    Args:
        stage: Name of the training in metrics.jsonl.
        directory: Directory of the stage; checkpoints go into its `checkpoints`.
        headline: Metrics that progress shows.
        logging_steps: Log means over this many steps.
        write: Called with the metrics of a step instead of writing to metrics.jsonl and trackers.
    """

    def __init__(
        self,
        learner: Learner,
        run: Run,
        stage: str,
        directory: Path,
        *,
        stop: StopRequest,
        progress: ProgressCallback | None = None,
        headline: Sequence[str] = ("loss",),
        logging_steps: int = 1,
        trackers: Sequence[Tracker] = (),
        write: Callable[[int, dict[str, Any]], None] | None = None,
    ) -> None:
        self.learner, self.run, self.stage, self.stop = learner, run, stage, stop
        self.checkpoints = directory / "checkpoints"
        self.remark = ""
        """Text to show beside the progress."""
        self._progress, self._headline, self._logging_steps = progress, headline, logging_steps
        self._trackers, self._write = trackers, write or self.write
        self._started = time.perf_counter()
        self._pending: list[tuple[Update, Mapping[str, float]]] = []  # steps not logged yet
        self._bad_in_a_row = 0
        self._num_tokens = 0
        self._note = ""

    def restore(self) -> tuple[int, dict[str, Any]]:
        """Load the newest checkpoint and return its step and state; (0, {}) if there is none."""
        found = last_checkpoint(self.checkpoints)
        if found is None:
            return 0, {}
        state = stored_state(found)  # first: it checks every file
        self.learner.load_checkpoint(found)
        self._num_tokens = state.pop("num_tokens", 0)
        return step_of(found), state

    def after(
        self,
        step: int,
        total: int,
        update: Update,
        numbers: Mapping[str, float] | None = None,
        *,
        save: bool = False,
        state: Callable[[], Mapping[str, Any]] = dict,
        validate: Callable[[], Mapping[str, float]] | None = None,
    ) -> bool:
        """Log a step, report progress, and save a checkpoint if one is due.

        Args:
            step: Steps done.
            total: Steps of the training.
            numbers: Further metrics of the step.
            save: True if a checkpoint is due.
            state: Returns what a resume needs besides weights and optimizer.
            validate: Returns figures of held-out games to log.

        Returns:
            True if the user wants to stop; a checkpoint is then saved.

        Raises:
            RunError: After too many bad steps in a row.
        """
        self._pending.append((update, numbers or {}))
        self._num_tokens += update.num_tokens
        self._bad_in_a_row = 0 if update.is_sound else self._bad_in_a_row + 1
        self._report(step, total, update, numbers or {})
        # All processes stop at the same step.
        stopping = self.stop.agreed = any(gather(self.stop.wanted))
        gives_up = self._bad_in_a_row >= MAX_BAD_STEPS
        # After a bad step keep the old checkpoint: it lies before the trouble.
        save = save and (update.is_sound or step == total)
        save = save or stopping or (gives_up and last_checkpoint(self.checkpoints) is None)
        # Always log a step with a checkpoint. Otherwise the means after a resume would cover other steps.
        if step % self._logging_steps == 0 or step == total or save or gives_up:
            self._log(step)
        # Validate before the checkpoint: after a kill in between, the step runs again and is validated again.
        if validate is not None:
            self._write(step, _finite({f"{VALIDATED}{name}": value for name, value in validate().items()}))
        if save:
            self._save(step, state())
        if gives_up:
            section = "sft" if self.stage == "sft" else "rl"
            raise RunError(
                f"{self.stage} stopped at step {step}: loss or gradient was not finite in {self._bad_in_a_row} steps "
                f"in a row; the last good weights are in {last_checkpoint(self.checkpoints) or 'no checkpoint'}; begin "
                f"a new run with a lower {section}.optimizer.learning_rate, or with model.precision fp32"
            )
        return stopping

    def write(self, step: int, numbers: Mapping[str, Any]) -> None:
        """Append a row to metrics.jsonl and pass its numbers to the trackers."""
        if not is_first():
            return
        seconds = round(time.perf_counter() - self._started, 3)
        self.run.append("metrics.jsonl", {"stage": self.stage, "step": step, "seconds": seconds, **numbers})
        for tracker in self._trackers:
            tracker.log(step, {name: value for name, value in numbers.items() if is_number(value)})

    def finish(self, on_saved: Callable[[Path], None] | None) -> None:
        """Save the model, call `on_saved` in the first process, and remove the checkpoints."""
        directory = self.checkpoints.parent
        self.learner.save_model(directory)
        if is_first():
            # Report first. Once the checkpoints are gone, an interrupted training could not resume.
            if on_saved is not None:
                on_saved(directory)
            drop_checkpoints(self.checkpoints)

    def _report(self, step: int, total: int, update: Update, numbers: Mapping[str, float]) -> None:
        if self._progress is None or not is_first():
            return
        known = {"loss": update.loss, **update.figures, **numbers}
        shown = [f"{name} {known[name]:.3f}" for name in self._headline if math.isfinite(known.get(name, math.nan))]
        self._note = ", ".join(shown) or self._note
        self._progress(step, total, ", ".join(note for note in (self._note, self.remark) if note))

    def _log(self, step: int) -> None:
        # Means over the steps since the last row, without skipped steps.
        sound = [(update, numbers) for update, numbers in self._pending if update.is_sound]
        last, numbers_of_last = self._pending[-1]
        values: dict[str, list[float]] = defaultdict(list)
        for update, numbers in sound or self._pending:
            for name, value in {"loss": update.loss, **update.figures, **numbers}.items():
                values[name].append(value)
        row: dict[str, Any] = {name: statistics.fmean(found) for name, found in values.items()}
        row |= {"grad_norm": last.grad_norm, "learning_rate": last.learning_rate, "num_tokens": self._num_tokens}
        if "epoch" in numbers_of_last:
            row["epoch"] = numbers_of_last["epoch"]  # a position, not something to average
        if not sound:
            row["loss"] = math.nan  # nothing was learnt from it
        row = _finite(row)
        if skipped := len(self._pending) - len(sound):
            row["skipped_steps"] = skipped
        if (resident := resident_memory_gib()) is not None:
            row["resident_memory_gib"] = round(resident, 3)
        self._pending = []
        self._write(step, row)

    def _save(self, step: int, state: Mapping[str, Any]) -> None:
        target = checkpoint_path(self.checkpoints, step)
        if last_checkpoint(self.checkpoints) == target:
            return
        try:
            if is_first():
                shutil.rmtree(target, ignore_errors=True)  # left by a kill
                target.mkdir(parents=True)
            wait_for_all()
            self.learner.save_checkpoint(target)
            if is_first():
                self.run.describe_model(target)
                complete_checkpoint(target, {**state, "num_tokens": self._num_tokens})
        except RunError:
            shutil.rmtree(target, ignore_errors=True)
            raise
        except (OSError, SafetensorError, RuntimeError) as error:  # torch and MLX report a full disk as RuntimeError
            shutil.rmtree(target, ignore_errors=True)
            first_line = str(error).strip().split("\n")[0]
            raise RunError(f"cannot save checkpoint {target}: {first_line}; free space and run again") from error
        wait_for_all()
        if is_first():
            self.run.on_checkpoint(target, f"{self.stage} step {step}")


def _finite(row: Mapping[str, float]) -> dict[str, Any]:
    # JSON has no NaN: keep the finite numbers, and the names of the others under `not_finite`.
    lost = sorted(name for name, value in row.items() if not math.isfinite(value))
    kept: dict[str, Any] = {name: value for name, value in row.items() if name not in lost}
    return kept | ({"not_finite": lost} if lost else {})


@dataclass
class StopRequest:
    """A request to stop.

    Attributes:
        wanted: Ctrl-C reached this process; a second one interrupts at once.
        agreed: Ctrl-C reached some process, and all processes stop at the same step. It is separate from `wanted`,
            because a terminal's Ctrl-C reaches processes one after the other: a process that learns of it from another
            must not take its own first Ctrl-C for a second.
    """

    wanted: bool = False
    agreed: bool = False


@contextmanager
def held_interrupt() -> Iterator[StopRequest]:
    """Turn the first Ctrl-C into a request, so that training can save a checkpoint and stop; raise it at the end."""
    request = StopRequest()

    def handle(_signal: int, _frame: FrameType | None) -> None:
        if request.wanted:
            raise KeyboardInterrupt
        request.wanted = True

    if threading.current_thread() is not threading.main_thread():  # only the main thread receives signals
        yield request
        return
    before = signal.signal(signal.SIGINT, handle)
    try:
        yield request
    finally:
        signal.signal(signal.SIGINT, before)
    if request.wanted or request.agreed:
        raise KeyboardInterrupt
