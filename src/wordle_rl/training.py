"""What all trainings share around TRL's trainers: metrics, progress, checkpoints, a clean stop on Ctrl-C."""

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
from transformers import PreTrainedModel, Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from wordle_rl.chat import ChatCodec
from wordle_rl.config import OptimizerSettings
from wordle_rl.modeling import save_model
from wordle_rl.optimizer import make_optimizer, rate_factor
from wordle_rl.processes import check_sharded, num_processes
from wordle_rl.provenance import resident_memory_gib
from wordle_rl.runs import Run, RunError

Progress = Callable[[int, int, str], None]
"""Called with steps done, steps in all, and a few words on how it goes."""

STATE_FILE = "wordle_rl_state.json"
"""What a training that plays knows beside its weights, in every checkpoint."""


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
        warnings.filterwarnings(
            "ignore", message="`(is_)?gradient_checkpointing(_disable|_enable)?` is", category=FutureWarning
        )
        # We pin and test that part of TRL.
        warnings.filterwarnings("ignore", message="You are using 'rollout_func'", category=UserWarning)
        yield


class RunCallback(TrainerCallback):
    """Writes metrics.jsonl, reports progress, and stops with a checkpoint when asked to."""

    def __init__(
        self,
        run: Run,
        stage: str,
        stop: StopRequest,
        progress: Progress | None,
        headline: str,
        guard: StepGuard | None = None,
    ) -> None:
        self._run, self._stage, self._stop = run, stage, stop
        self._progress, self._headline = progress, headline
        self.guard = guard or StepGuard(stage, 1)
        self._last_logged = 0
        self._started = time.perf_counter()
        self._note = ""

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Append the step's numbers to metrics.jsonl."""
        logs: dict[str, Any] = kwargs.get("logs") or {}
        if "train_runtime" in logs or not state.is_world_process_zero:
            return
        numbers: dict[str, Any] = {name: value for name, value in logs.items() if _is_number(value)}
        lost = [name for name, value in logs.items() if isinstance(value, float) and not math.isfinite(value)]
        if skipped := self.guard.take_skipped():
            numbers["skipped_steps"] = skipped
            if skipped >= state.global_step - self._last_logged and "loss" in numbers:
                del numbers["loss"]  # transformers fills in for a loss that is not finite; there was no other
                lost.append("loss")
        if lost:
            numbers["not_finite"] = sorted(lost)
        if (resident := resident_memory_gib()) is not None:
            numbers["resident_memory_gib"] = round(resident, 3)
        self._last_logged = state.global_step
        self.write(state.global_step, numbers)
        if self._headline in numbers:
            self._note = f"{self._headline} {numbers[self._headline]:.3f}"

    def write(self, step: int, numbers: dict[str, Any]) -> None:
        """Keep the numbers of a step."""
        seconds = round(time.perf_counter() - self._started, 3)
        self._run.append("metrics.jsonl", {"stage": self._stage, "step": step, "seconds": seconds, **numbers})

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Advance the bar; save and stop if any process was asked to, all of them at the same step."""
        if self._progress is not None and state.is_world_process_zero:
            self._progress(state.global_step, state.max_steps, self._note)
        self._stop.wanted = in_any_process(self._stop.wanted, args.device)
        if self._stop.wanted:
            control.should_save = True
            control.should_training_stop = True

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Count the steps that were skipped after the last line, too."""
        if (skipped := self.guard.take_skipped()) and state.is_world_process_zero:
            row = {"stage": self._stage, "step": state.global_step, "skipped_steps": skipped, "not_finite": ["loss"]}
            self._run.append("metrics.jsonl", row)


def in_any_process(wanted: bool, device: torch.device) -> bool:
    """Whether it is so in any of the processes that train together; each of them must ask."""
    if num_processes() == 1:
        return wanted
    flag = torch.tensor(int(wanted), device=device)
    torch.distributed.all_reduce(flag, torch.distributed.ReduceOp.MAX)
    return bool(flag.item())


class StepGuard(TrainerCallback):
    """Lets no step whose loss or gradient is not finite change a weight, and ends a training of nothing but such.

    A gradient that is not a number makes every weight it reaches not a number, for good. Such a step goes by without
    an update of weights or optimizer; the schedule and the data move on. No checkpoint is written in a run of bad
    steps, so that the last one is from before it; only if there is none yet, the weights are saved before the end.

    Args:
        stage: `sft` or `grpo`, for the message.
        limit: Bad steps in a row after which training stops.
    """

    def __init__(self, stage: str, limit: int) -> None:
        self._stage, self._limit = stage, limit
        self._loss_is_bad = False
        self._in_a_row = 0
        self._skipped = 0
        self._ended_at: int | None = None

    def hear(self, loss: torch.Tensor) -> None:
        """Take note of the loss of a batch before the optimizer steps."""
        self._loss_is_bad = self._loss_is_bad or not bool(torch.isfinite(loss).all())

    def take_skipped(self) -> int:
        """How many steps were skipped since this was asked last."""
        skipped, self._skipped = self._skipped, 0
        return skipped

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Take the gradients away from a bad step: optimizers pass over weights without one."""
        model: torch.nn.Module = kwargs["model"]
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        gradients = [g.to_local() if hasattr(g, "to_local") else g for g in gradients]
        norm = torch.nn.utils.get_total_norm(gradients) if gradients else torch.zeros(())
        bad = in_any_process(self._loss_is_bad or not bool(torch.isfinite(norm)), args.device)
        self._loss_is_bad = False
        self._in_a_row = self._in_a_row + 1 if bad else 0
        if bad:
            self._skipped += 1
            if args.deepspeed_plugin is not None:  # its engine has taken the step already
                self._limit = 1
            model.zero_grad(set_to_none=True)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Write no checkpoint after a bad step, unless it is the last; stop after too many."""
        if not self._in_a_row:
            return
        control.should_save = control.should_save and state.global_step >= state.max_steps
        if self._in_a_row >= self._limit:
            self._ended_at = state.global_step
            has_checkpoint = last_checkpoint(Path(str(args.output_dir))) is not None
            control.should_save = not has_checkpoint and args.deepspeed_plugin is None
            control.should_training_stop = True

    def check(self, checkpoints: Path) -> None:
        """Raise what was found once the trainer has come to rest.

        Raises:
            RunError: If training was stopped because too many steps in a row were bad.
        """
        if self._ended_at is None:
            return
        raise RunError(
            f"{self._stage} stopped at step {self._ended_at}: loss or gradient were not finite in {self._in_a_row} "
            f"steps in a row; the last good weights are in {last_checkpoint(checkpoints) or 'no checkpoint'}; lower "
            f"{self._stage}.optimizer.learning_rate or set {self._stage}.precision to fp32 in a new run"
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def make_scheduler(optimizer: torch.optim.Optimizer, settings: OptimizerSettings, total_steps: int) -> LambdaLR:
    """A scheduler that follows `rate_factor` for every parameter group."""
    return LambdaLR(optimizer, lambda step: rate_factor(settings, step, total_steps))


class WholeCheckpoints(Trainer):
    """A trainer that leaves no half-written checkpoint behind and tells its guard of every loss."""

    guard: StepGuard | None = None

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """One batch, forward and backward."""
        loss: torch.Tensor = super().training_step(*args, **kwargs)
        if self.guard is not None:
            self.guard.hear(loss)
        return loss

    def _save_checkpoint(self, model: torch.nn.Module, trial: Any) -> None:
        try:
            super()._save_checkpoint(model, trial)
            self._complete_shards()
        except (OSError, SafetensorError, RuntimeError) as error:  # torch tells of a full disk by a RuntimeError
            directory = Path(str(self.args.output_dir)) / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
            shutil.rmtree(directory, ignore_errors=True)
            first_line = str(error).strip().split("\n")[0]
            raise RunError(f"cannot save checkpoint {directory}: {first_line}; free space and run again") from error

    def _complete_shards(self) -> None:
        """Put what else makes a model beside sharded weights, which transformers saves alone."""
        directory = Path(str(self.args.output_dir)) / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
        if self.is_world_process_zero() and (directory / "pytorch_model_fsdp_0").is_dir():
            unwrapped = self.accelerator.unwrap_model(self.model)
            unwrapped.config.save_pretrained(directory)
            self.processing_class.save_pretrained(directory)  # type: ignore[union-attr]  # our tokenizer


def save_trained(trainer: Trainer, codec: ChatCodec, directory: Path) -> None:
    """Save the trained model from the first process, gathered from all of them where it is sharded.

    Every process must call this.
    """
    state_dict = None
    if trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
        state_dict = trainer.accelerator.get_state_dict(trainer.model_wrapped)
    if trainer.is_world_process_zero():
        model: PreTrainedModel = trainer.accelerator.unwrap_model(trainer.model)
        save_model(model, codec, directory, state_dict)
    trainer.accelerator.wait_for_everyone()


def check_launch(trainer: Trainer, settings: OptimizerSettings, stage: str, wants_whole: str = "") -> None:
    """As `check_sharded`, where the trainer's weights are spread over processes; it knows how it was launched."""
    plugin = getattr(trainer.accelerator.state, "deepspeed_plugin", None)
    if trainer.is_fsdp_enabled or (plugin is not None and plugin.zero_stage == 3):
        check_sharded(settings, stage, wants_whole)


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


def train_epochs(
    trainer: WholeCheckpoints, model: torch.nn.Module, settings: OptimizerSettings, checkpoints: Path
) -> None:
    """Train for the epochs of the trainer's arguments with an optimizer of ours, from the last checkpoint on.

    Raises:
        RunError: If the loss is not finite for too many steps in a row.
    """
    arguments = trainer.args
    steps_per_epoch = -(-len(trainer.get_train_dataloader()) // arguments.gradient_accumulation_steps)
    total_steps = max(1, math.ceil(steps_per_epoch * arguments.num_train_epochs))
    trainer.optimizer = make_optimizer(model, settings)
    trainer.lr_scheduler = make_scheduler(trainer.optimizer, settings, total_steps)
    train_to_end(trainer, last_checkpoint(checkpoints), total_steps)
    if trainer.guard is not None:
        trainer.guard.check(checkpoints)


def _step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.rsplit("-", 1)[1])


def drop_checkpoints(directory: Path) -> None:
    """Remove the checkpoints of a finished stage; the finished model stands beside them."""
    shutil.rmtree(directory, ignore_errors=True)
