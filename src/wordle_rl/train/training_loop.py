"""What happens around the optimizer steps of every stage: metrics, progress, Ctrl-C, bad steps, checkpoints.

    loop = TrainingLoop(training, stop, total)
    checkpoint, place, state = loop.restore()      # the caller loads the weights of `checkpoint`
    for step in range(place.done + 1, total + 1):
        loop.add(learner.update(batches_of(step), loss, step))
        if loop.after(step):
            break

A row of metrics.jsonl belongs to a step of SFT or a round of learning by play, and holds means over its updates.
checkpoints.py says what a checkpoint holds.
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
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from safetensors import SafetensorError

from wordle_rl.runs import VALIDATED, Run, RunError, is_number
from wordle_rl.runs.distributed import gather, is_first, wait_for_all
from wordle_rl.runs.progress import LINE_EVERY_S, ProgressCallback, forecast_line
from wordle_rl.runs.provenance import resident_memory_gib
from wordle_rl.runs.trackers import Tracker
from wordle_rl.train.checkpoints import (
    Place,
    checkpoint_path,
    complete_checkpoint,
    drop_checkpoints,
    last_checkpoint,
    place_of,
    stored_state,
)
from wordle_rl.train.learner import Learner, Update

MAX_BAD_STEPS = 5
"""Stop a training after this many consecutive steps whose loss or gradient is not finite."""


@dataclass(frozen=True)
class Training:
    """What a training is given beside its settings.

    Attributes:
        stage: Name of the stage: of its directory in the run, and in the rows that it logs.
        seed: Seed of batches, secrets, initial states and sampling.
        report_to: Names of trackers.
        progress: Called with what is done, the total, and a note.
        tell: Called in the first process with a line for the user.
        on_saved: Called in the first process with the directory of the saved model, before checkpoints are removed.
        save_total_limit: Checkpoints to keep; 0: all.
    """

    learner: Learner
    run: Run
    stage: str
    seed: int = 0
    report_to: Sequence[str] = ()
    progress: ProgressCallback | None = None
    tell: Callable[[str], None] = lambda _line: None
    on_saved: Callable[[Path], None] | None = None
    save_total_limit: int = 1

    @property
    def directory(self) -> Path:
        """Directory of the stage, and of its model."""
        return self.run.directory / self.stage

    @property
    def checkpoints(self) -> Path:
        """Directory of the checkpoints."""
        return self.directory / "checkpoints"


class TrainingLoop:
    """Log and checkpoints of a training. Every process has one; only the first writes.

    Args:
        total: Steps of SFT, or rounds.
        unit: Name of these.
        headline: Metrics that progress shows.
        logging_steps: Log means over this many steps.
    """

    def __init__(
        self,
        training: Training,
        stop: StopRequest,
        total: int,
        *,
        unit: str = "steps",
        headline: Sequence[str] = ("loss",),
        logging_steps: int = 1,
        trackers: Sequence[Tracker] = (),
    ) -> None:
        self.training, self.stop, self.total = training, stop, total
        self._unit, self._remark = unit, ""
        self._headline, self._logging_steps, self._trackers = headline, logging_steps, trackers
        self._started = time.perf_counter()
        self._first_ends: list[float] = []  # when the first two steps of this call ended
        self._pending: list[Update] = []  # updates not logged yet
        self._numbers: list[Mapping[str, float]] = []  # further metrics of steps not logged yet
        self._steps_before = 0  # of those in `_pending` that a stopped call has made
        self._bad_in_a_row = 0
        self._num_tokens = 0
        self._note = ""

    def restore(self) -> tuple[Path | None, Place, dict[str, Any]]:
        """Return the newest checkpoint, its place and its state; (None, (0, 0), {}) if there is none.

        The caller loads the weights: only it knows whether an optimizer goes with them.
        """
        found = last_checkpoint(self.training.checkpoints)
        if found is None:
            return None, Place(), {}
        state = stored_state(found)  # checks every file
        self._num_tokens = state.pop("num_tokens", 0)
        # A stop inside a round keeps the updates of its first part, so that the row of the round is that of a run that
        # was never stopped.
        self._pending = [Update(**_with_nan(update)) for update in state.pop("pending", ())]
        self._steps_before = state.pop("pending_steps", 0)
        return found, place_of(found), state

    def add(self, update: Update) -> None:
        """Count an update, and whether it was bad; `gives_up` says when there were too many, and `after` raises."""
        self._pending.append(update)
        self._num_tokens += update.num_tokens
        self._bad_in_a_row = 0 if update.is_sound else self._bad_in_a_row + 1

    @property
    def gives_up(self) -> bool:
        """True after too many bad updates in a row."""
        return self._bad_in_a_row >= MAX_BAD_STEPS

    def after(
        self,
        step: int,
        numbers: Mapping[str, float] | None = None,
        *,
        save: bool = False,
        state: Callable[[], Mapping[str, Any]] = dict,
        validate: Callable[[], Mapping[str, float]] | None = None,
        with_optimizer: bool = True,
    ) -> bool:
        """Log a step or round, report progress, and save a checkpoint if one is due.

        Args:
            step: Steps or rounds done.
            numbers: Further metrics of the step.
            save: True if a checkpoint is due.
            state: Returns what a resume needs besides weights and optimizer.
            validate: Returns figures of held-out games to log.
            with_optimizer: False stores weights alone.

        Returns:
            True if the user wants to stop; a checkpoint is then saved.

        Raises:
            RunError: After too many bad updates in a row.
        """
        self._numbers.append(numbers or {})
        self._forecast(step)
        is_sound = not self._pending or self._pending[-1].is_sound
        # All processes stop at the same step.
        stopping = self.wants_stop()
        # After a bad step keep the old checkpoint: it lies before the trouble.
        save = save and (is_sound or step == self.total)
        save = save or (self.gives_up and last_checkpoint(self.training.checkpoints) is None)
        # A checkpoint that is due begins new means. That of a stop keeps the updates of the means that have begun.
        if step % self._logging_steps == 0 or step == self.total or save or self.gives_up:
            self._log(step)
        # SFT's validation comes before the checkpoint: after a kill in between, step and validation run again. GRPO's
        # takes long and changes no row of the step, so it comes afterwards (checkpoint_selection.py).
        if validate is not None:
            self.write(step, _finite({f"{VALIDATED}{name}": value for name, value in validate().items()}))
        if save or stopping:
            self.save(Place(step), state(), with_optimizer=with_optimizer)
        if self.gives_up:
            self.give_up(f"step {step}")
        return stopping

    def _forecast(self, step: int) -> None:
        # By the second step: the first one also compiles and warms up, and what comes later would come too late.
        if len(self._first_ends) == 2:
            return
        self._first_ends.append(time.perf_counter())
        if len(self._first_ends) == 2 and is_first():
            first, second = self._first_ends
            each, left = second - first, self.total - step
            if each * left >= LINE_EVERY_S:
                spent = second - self._started
                self.training.tell(forecast_line(self.training.stage, self._unit, self.total, spent, each))

    def wants_stop(self) -> bool:
        """Return True if Ctrl-C reached any process; every process must call this."""
        self.stop.agreed = any(gather(self.stop.wanted))
        return self.stop.agreed

    def give_up(self, where: str) -> NoReturn:
        """Stop a training whose updates are not finite."""
        stage, checkpoints = self.training.stage, self.training.checkpoints
        raise RunError(
            f"{stage} stopped at {where}: loss or gradient was not finite in {self._bad_in_a_row} steps in a row; the "
            f"last good weights are in {last_checkpoint(checkpoints) or 'no checkpoint'}; begin a new run with a lower "
            f"{stage}.optimizer.learning_rate, or with model.precision fp32"
        )

    def write(self, step: int, numbers: Mapping[str, Any]) -> None:
        """Append a row to metrics.jsonl and pass its numbers to the trackers."""
        if not is_first():
            return
        seconds = round(time.perf_counter() - self._started, 3)
        row = {"stage": self.training.stage, "step": step, "seconds": seconds, **numbers}
        self.training.run.append("metrics.jsonl", row)
        for tracker in self._trackers:
            tracker.log(step, {name: value for name, value in numbers.items() if is_number(value)})

    def finish(self) -> Path:
        """Save the model, call `on_saved` in the first process, remove the checkpoints, and return the directory."""
        training = self.training
        training.learner.save_model(training.directory)
        if is_first():
            # Report first. Once the checkpoints are gone, an interrupted training could not resume.
            if training.on_saved is not None:
                training.on_saved(training.directory)
            drop_checkpoints(training.checkpoints, training.save_total_limit)
        return training.directory

    def report(self, done: float, total: float, numbers: Mapping[str, float] | str = "") -> None:
        """Show progress: what is done, and a note, or the headline of these numbers and of the last update."""
        progress = self.training.progress
        if progress is None or not is_first():
            return
        if isinstance(numbers, str):
            note = numbers
        else:
            last = self._pending[-1] if self._pending else None
            known = {**({"loss": last.loss, **last.figures} if last else {}), **numbers}
            shown = [f"{name} {known[name]:.3f}" for name in self._headline if math.isfinite(known.get(name, math.nan))]
            note = self._note = ", ".join(shown) or self._note
        progress(int(done), int(total), ", ".join(text for text in (note, self._remark) if text))

    def remark(self, text: str) -> None:
        """Show a text beside the progress from now on."""
        self._remark = text

    def _log(self, step: int) -> None:
        # Means over the updates since the last row, without skipped ones.
        sound = [update for update in self._pending if update.is_sound]
        values: dict[str, list[float]] = defaultdict(list)
        for update in sound or self._pending:
            own = {"loss": update.loss, "grad_norm": update.grad_norm, **update.figures}
            own |= {f"seconds/{name}": seconds for name, seconds in update.seconds.items()}
            for name, value in own.items():
                values[name].append(value)
        for numbers in self._numbers:
            for name, value in numbers.items():
                values[name].append(value)
        # The seconds of a round are the sum over its updates.
        steps = self._steps_before + len(self._numbers)
        row: dict[str, Any] = {
            name: sum(found) / max(1, steps) if name.startswith("seconds/") else statistics.fmean(found)
            for name, found in values.items()
        }
        if self._pending:
            row |= {"learning_rate": self._pending[-1].learning_rate, "num_tokens": self._num_tokens}
        if "epoch" in self._numbers[-1]:
            row["epoch"] = self._numbers[-1]["epoch"]  # a position, not something to average
        if self._pending and not sound:
            row["loss"] = math.nan  # nothing was learnt from it
        row = _finite(row)
        if skipped := len(self._pending) - len(sound):
            row["skipped_steps"] = skipped
        if (resident := resident_memory_gib()) is not None:
            row["resident_memory_gib"] = round(resident, 3)
        self._pending, self._numbers, self._steps_before = [], [], 0
        self.write(step, row)

    def save(self, place: Place, state: Mapping[str, Any], *, with_optimizer: bool = True) -> None:
        """Write a checkpoint, unless the newest one is of this place already."""
        training = self.training
        target = checkpoint_path(training.checkpoints, place)
        if last_checkpoint(training.checkpoints) == target:
            return
        pending = [_without_nan(asdict(update)) for update in self._pending]
        try:
            if is_first():
                shutil.rmtree(target, ignore_errors=True)  # left by a kill
                target.mkdir(parents=True)
            wait_for_all()
            if with_optimizer:
                training.learner.save_checkpoint(target)
            else:
                training.learner.save_model(target)
            if is_first():
                training.run.describe_model(target)
                state = {**state, "num_tokens": self._num_tokens}
                if pending:
                    state |= {"pending": pending, "pending_steps": self._steps_before + len(self._numbers)}
                complete_checkpoint(target, state, training.save_total_limit)
        except RunError:
            shutil.rmtree(target, ignore_errors=True)
            raise
        except (OSError, SafetensorError, RuntimeError) as error:  # torch and MLX report a full disk as RuntimeError
            shutil.rmtree(target, ignore_errors=True)
            first_line = str(error).strip().split("\n")[0]
            raise RunError(f"cannot save checkpoint {target}: {first_line}; free space and run again") from error
        wait_for_all()
        if is_first():
            training.run.on_checkpoint(target, f"{training.stage} step {place.done}")


def _without_nan(values: Mapping[str, Any]) -> dict[str, Any]:
    # JSON has no NaN; null stands for it in a state file.
    return {
        name: _without_nan(value) if isinstance(value, dict) else value
        for name, value in ((name, None if value != value else value) for name, value in values.items())
    }


def _with_nan(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _with_nan(value) if isinstance(value, dict) else math.nan if value is None else value
        for name, value in values.items()
    }


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
        at_once: The first Ctrl-C interrupts, too.
    """

    wanted: bool = False
    agreed: bool = False
    at_once: bool = False

    @contextmanager
    def unheld(self) -> Iterator[None]:
        """Let Ctrl-C interrupt at once: there is nothing to save. One that came before interrupts now."""
        self.at_once = True
        try:
            if self.wanted:
                raise KeyboardInterrupt
            yield
        finally:
            self.at_once = False


@contextmanager
def held_interrupt() -> Iterator[StopRequest]:
    """Turn the first Ctrl-C into a request, so that training can save a checkpoint and stop; raise it at the end."""
    request = StopRequest()

    def handle(_signal: int, _frame: FrameType | None) -> None:
        second, request.wanted = request.wanted, True
        if second or request.at_once:
            raise KeyboardInterrupt

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
