"""What SFT and GRPO share around TRL's trainers: metrics, progress, checkpoints, a clean stop on Ctrl-C."""

from __future__ import annotations

import math
import shutil
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from safetensors import SafetensorError
from torch.optim.lr_scheduler import LambdaLR
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from wordle_rl.config import OptimizerSettings
from wordle_rl.modeling import rate_factor
from wordle_rl.runs import Run, RunError

Progress = Callable[[int, int, str], None]
"""Called with steps done, steps in all, and a few words on how it goes."""


class StopRequest:
    """Whether the user asked to stop; a second Ctrl-C is not held back any more."""

    def __init__(self) -> None:
        self.wanted = False


@contextmanager
def held_interrupt() -> Iterator[StopRequest]:
    """Turn the first Ctrl-C into a request, so that training can save a checkpoint before it stops.

    Raises:
        KeyboardInterrupt: At the end, if a stop was requested.
    """
    request = StopRequest()

    def handle(_signal: int, _frame: FrameType | None) -> None:
        if request.wanted:
            raise KeyboardInterrupt
        request.wanted = True

    if threading.current_thread() is not threading.main_thread():  # only the main thread hears signals
        yield request
        return
    before = signal.signal(signal.SIGINT, handle)
    try:
        yield request
    finally:
        signal.signal(signal.SIGINT, before)
    if request.wanted:
        raise KeyboardInterrupt


@contextmanager
def known_warnings_silenced() -> Iterator[None]:
    """Keep warnings from users who cannot act on them."""
    with warnings.catch_warnings():
        # Its new name is unknown to the oldest transformers we support.
        warnings.filterwarnings("ignore", message="`(is_)?gradient_checkpointing` is", category=FutureWarning)
        # We pin and test that part of TRL.
        warnings.filterwarnings("ignore", message="You are using 'rollout_func'", category=UserWarning)
        yield


class RunCallback(TrainerCallback):
    """Writes metrics.jsonl, reports progress, and stops with a checkpoint when asked to."""

    def __init__(self, run: Run, stage: str, stop: StopRequest, progress: Progress | None, headline: str) -> None:
        self._run, self._stage, self._stop = run, stage, stop
        self._progress, self._headline = progress, headline
        self._started = time.perf_counter()
        self._note = ""

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Append the step's numbers to metrics.jsonl."""
        logs: dict[str, Any] = kwargs.get("logs") or {}
        if "train_runtime" in logs or not state.is_world_process_zero:
            return
        numbers = {name: value for name, value in logs.items() if _is_number(value)}
        seconds = round(time.perf_counter() - self._started, 3)
        self._run.append(
            "metrics.jsonl", {"stage": self._stage, "step": state.global_step, "seconds": seconds, **numbers}
        )
        if self._headline in numbers:
            self._note = f"{self._headline} {numbers[self._headline]:.3f}"

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Advance the bar; save and stop if asked to."""
        if self._progress is not None and state.is_world_process_zero:
            self._progress(state.global_step, state.max_steps, self._note)
        if self._stop.wanted:
            control.should_save = True
            control.should_training_stop = True


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def make_scheduler(optimizer: torch.optim.Optimizer, settings: OptimizerSettings, total_steps: int) -> LambdaLR:
    """A scheduler that follows `rate_factor` for every parameter group."""
    return LambdaLR(optimizer, lambda step: rate_factor(settings, step, total_steps))


class WholeCheckpoints(Trainer):
    """A trainer that leaves no half-written checkpoint behind."""

    def _save_checkpoint(self, model: torch.nn.Module, trial: Any) -> None:
        try:
            super()._save_checkpoint(model, trial)
        except (OSError, SafetensorError, RuntimeError) as error:  # torch tells of a full disk by a RuntimeError
            directory = Path(str(self.args.output_dir)) / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
            shutil.rmtree(directory, ignore_errors=True)
            first_line = str(error).strip().split("\n")[0]
            raise RunError(f"cannot save checkpoint {directory}: {first_line}; free space and run again") from error


def last_checkpoint(directory: Path, *needed: str) -> str | None:
    """The newest whole checkpoint below a directory, or None.

    A process that was killed may leave half a checkpoint, which is passed over.

    Args:
        directory: Where the checkpoints are.
        needed: Files a checkpoint must hold besides the trainer's own state, which is written last.
    """
    whole = [
        checkpoint
        for checkpoint in directory.glob(f"{PREFIX_CHECKPOINT_DIR}-*")
        if all((checkpoint / name).is_file() for name in (TRAINER_STATE_NAME, *needed))
    ]
    return str(max(whole, key=_step_of)) if whole else None


def train_to_end(trainer: Trainer, checkpoint: str | None, total_steps: int) -> None:
    """Train from a checkpoint on, or take its weights where nothing is left to do.

    Asked to go on from the last step, transformers would take one more.
    """
    if checkpoint is not None and _step_of(Path(checkpoint)) >= total_steps:
        trainer._load_from_checkpoint(checkpoint)
    else:
        trainer.train(resume_from_checkpoint=checkpoint)


def _step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.rsplit("-", 1)[1])


def drop_checkpoints(directory: Path) -> None:
    """Remove the checkpoints of a finished stage; the finished model stands beside them."""
    shutil.rmtree(directory, ignore_errors=True)
