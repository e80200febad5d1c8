"""Shared parts of all trainings around TRL's trainers: metrics, progress, and training to the end from a checkpoint."""

from __future__ import annotations

import math
import shutil
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch.optim.lr_scheduler import LambdaLR
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from wordle_rl.config import OptimizerSettings, Precision
from wordle_rl.models.adapters import ADAPTER_WEIGHTS, has_adapters
from wordle_rl.models.device import device_kind
from wordle_rl.runs import VALIDATED, Run, RunError, is_number
from wordle_rl.runs.progress import ProgressCallback
from wordle_rl.runs.provenance import resident_memory_gib
from wordle_rl.training.checkpoints import complete_checkpoint, last_checkpoint, step_of
from wordle_rl.training.guard import StepGuard, in_any_process
from wordle_rl.training.interrupt import StopRequest
from wordle_rl.training.optimizer import make_optimizer, rate_factor, wants_bf16


@contextmanager
def known_warnings_silenced() -> Iterator[None]:
    """Hide warnings that users cannot act on."""
    with warnings.catch_warnings():
        # The oldest transformers we support does not know the new name.
        warnings.filterwarnings(
            "ignore", message="`(is_)?gradient_checkpointing(_disable|_enable)?` is", category=FutureWarning
        )
        # We pin and test that part of TRL.
        warnings.filterwarnings("ignore", message="You are using 'rollout_func'", category=UserWarning)
        yield


class RunCallback(TrainerCallback):
    """Writes metrics.jsonl, reports progress, and stops with a checkpoint on request."""

    def __init__(
        self,
        run: Run,
        stage: str,
        stop: StopRequest,
        progress: ProgressCallback | None,
        headline: Sequence[str],
        guard: StepGuard,
    ) -> None:
        self.run, self._stage, self._stop = run, stage, stop
        self._progress, self._headline = progress, headline
        self.guard = guard
        self._last_logged = 0
        self._started = time.perf_counter()
        self._note = self._remark = ""

    def remark(self, text: str) -> None:
        """Show a remark beside the progress from now on; empty: none."""
        self._remark = text

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Append the step's numbers to metrics.jsonl."""
        logs: dict[str, Any] = kwargs.get("logs") or {}
        if "train_runtime" in logs or not state.is_world_process_zero:
            return
        if "eval_runtime" in logs:
            self._write_validation(state.global_step, logs)
            return
        numbers, lost = _numbers(logs)
        if skipped := self.guard.take_skipped():
            numbers["skipped_steps"] = skipped
            if skipped >= state.global_step - self._last_logged and "loss" in numbers:
                del numbers["loss"]  # every step was skipped: transformers logs a substitute for their losses
                lost.append("loss")
        if lost:
            numbers["not_finite"] = sorted(lost)
        if (resident := resident_memory_gib()) is not None:
            numbers["resident_memory_gib"] = round(resident, 3)
        self._last_logged = state.global_step
        self.write(state.global_step, numbers)
        shown = [f"{name} {numbers[name]:.3f}" for name in self._headline if name in numbers]
        self._note = ", ".join(shown) or self._note

    def _write_validation(self, step: int, logs: dict[str, Any]) -> None:
        """Write the figures of validation games, without transformers' clocks."""
        names = ("eval_loss", "eval_mean_token_accuracy")
        numbers, lost = _numbers({VALIDATED + name.removeprefix("eval_"): logs[name] for name in names})
        self.write(step, numbers | ({"not_finite": lost} if lost else {}))

    def write(self, step: int, numbers: dict[str, Any]) -> None:
        """Write the numbers of a step."""
        seconds = round(time.perf_counter() - self._started, 3)
        self.run.append("metrics.jsonl", {"stage": self._stage, "step": step, "seconds": seconds, **numbers})

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Report a complete checkpoint."""
        if state.is_world_process_zero:
            checkpoint = Path(str(args.output_dir)) / f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"
            self.run.on_checkpoint(checkpoint, f"{self._stage} step {state.global_step}")

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Report progress; if any process was asked to stop, save and stop in all of them at the same step.

        A step with a checkpoint is logged, so that a training resumed from it logs the same means as one never stopped.
        """
        if self._progress is not None and state.is_world_process_zero:
            notes = [note for note in (self._note, self._remark) if note]
            self._progress(state.global_step, state.max_steps, ", ".join(notes))
        self._stop.wanted = in_any_process(self._stop.wanted, args.device)
        if self._stop.wanted:
            control.should_save = True
            control.should_training_stop = True
        control.should_log = control.should_log or control.should_save

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Log the steps that were skipped after the last line of metrics."""
        if (skipped := self.guard.take_skipped()) and state.is_world_process_zero:
            row = {"stage": self._stage, "step": state.global_step, "skipped_steps": skipped, "not_finite": ["loss"]}
            self.run.append("metrics.jsonl", row)


def _numbers(logs: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The finite numbers of a log, and the names of those that are not finite."""
    lost = [name for name, value in logs.items() if isinstance(value, float) and not math.isfinite(value)]
    return {name: value for name, value in logs.items() if is_number(value)}, lost


Part = tuple[int, int]
"""Number of a part of a schedule, from 0, and how many equal parts it has."""


def make_scheduler(
    optimizer: torch.optim.Optimizer, settings: OptimizerSettings, num_steps: int, part: Part = (0, 1)
) -> LambdaLR:
    """A scheduler that follows `rate_factor` for every parameter group, over this part of the schedule."""
    number, parts = part
    return LambdaLR(optimizer, lambda step: rate_factor(settings, number * num_steps + step, parts * num_steps))


def trainer_arguments(
    optimizer: OptimizerSettings, precision: Precision, gradient_checkpointing: bool, checkpoints: Path, seed: int
) -> dict[str, Any]:
    """The arguments that all our trainings give their trainers alike."""
    return {
        "output_dir": str(checkpoints),
        "learning_rate": optimizer.learning_rate,
        "max_grad_norm": optimizer.max_grad_norm,
        "bf16": wants_bf16(precision),
        "use_cpu": device_kind() == "cpu",
        "dataloader_pin_memory": device_kind() != "mps",  # there is no other memory to copy to, and torch warns
        "gradient_checkpointing": gradient_checkpointing,
        "seed": seed,
        "disable_tqdm": True,
        "log_level": "error",
    }


class WholeCheckpoints(Trainer):
    """A trainer that leaves no half-written checkpoint behind and shows every loss to its guard.

    Args:
        args: Those of the trainer it is mixed into.
        guard: Sees every loss; None: nobody does. It must be among the callbacks, too.
        kwargs: As args.
    """

    def __init__(self, *args: Any, guard: StepGuard | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.guard = guard

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """One batch, forward and backward."""
        loss: torch.Tensor = super().training_step(*args, **kwargs)
        if self.guard is not None:
            self.guard.note_loss(loss)
        return loss

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: torch.nn.Module | None = None) -> None:
        """Load the weights of a checkpoint, also those of an adapter beside a frozen copy of its start.

        Of several adapters transformers before 5.23 loads those in subdirectories alone, which is the copy.
        """
        super()._load_from_checkpoint(resume_from_checkpoint, model)
        adapted: Any = self.accelerator.unwrap_model(self.model)
        if is_sharded(self) or not has_adapters(adapted) or len(adapted.peft_config) == 1:
            return
        if (Path(resume_from_checkpoint) / ADAPTER_WEIGHTS).is_file():
            adapted.load_adapter(resume_from_checkpoint, "default", is_trainable=True)

    def _save_checkpoint(self, model: torch.nn.Module, trial: Any) -> None:
        directory = Path(str(self.args.output_dir)) / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
        try:
            super()._save_checkpoint(model, trial)
            self._complete_shards()
            state = self.state_to_store()
            self.accelerator.wait_for_everyone()  # each process writes its random state, or its shards
            if self.is_world_process_zero():
                complete_checkpoint(directory, state)
        except RunError:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        except (OSError, SafetensorError, RuntimeError) as error:  # torch reports a full disk by a RuntimeError
            shutil.rmtree(directory, ignore_errors=True)
            first_line = str(error).strip().split("\n")[0]
            raise RunError(f"cannot save checkpoint {directory}: {first_line}; free space and run again") from error

    def state_to_store(self) -> dict[str, Any]:
        """The record of this training that a checkpoint keeps; every process calls this."""
        return {}

    def _complete_shards(self) -> None:
        """Save config and tokenizer beside sharded weights, which transformers saves alone."""
        directory = Path(str(self.args.output_dir)) / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
        if self.is_world_process_zero() and (directory / "pytorch_model_fsdp_0").is_dir():
            unwrapped = self.accelerator.unwrap_model(self.model)
            unwrapped.config.save_pretrained(directory)
            self.processing_class.save_pretrained(directory)  # type: ignore[union-attr]  # our tokenizer


def is_sharded(trainer: Trainer) -> bool:
    """True if the trainer's weights are sharded over processes; it knows how it was launched."""
    plugin = getattr(trainer.accelerator.state, "deepspeed_plugin", None)
    return trainer.is_fsdp_enabled or (plugin is not None and plugin.zero_stage == 3)


def train_to_end(trainer: Trainer, checkpoint: str | None, total_steps: int) -> None:
    """Train from a checkpoint on, or only load it where it is of the last step.

    Resumed from the last step, transformers would take one more.
    """
    if checkpoint is not None and step_of(Path(checkpoint)) >= total_steps:
        trainer._load_from_checkpoint(checkpoint)
    else:
        trainer.train(resume_from_checkpoint=checkpoint)


def train_epochs(
    trainer: WholeCheckpoints,
    model: torch.nn.Module,
    settings: OptimizerSettings,
    checkpoints: Path,
    part: Part = (0, 1),
) -> None:
    """Train for the epochs of the trainer's arguments with an optimizer of ours, from the last checkpoint on.

    Args:
        trainer: The trainer.
        model: Its model.
        settings: Optimizer and schedule.
        checkpoints: Where its checkpoints are.
        part: The part of the schedule that these epochs are.

    Raises:
        RunError: If the loss is not finite for too many steps in a row.
    """
    arguments = trainer.args
    steps_per_epoch = -(-len(trainer.get_train_dataloader()) // arguments.gradient_accumulation_steps)
    total_steps = max(1, math.ceil(steps_per_epoch * arguments.num_train_epochs))
    trainer.optimizer = make_optimizer(model, settings)
    trainer.lr_scheduler = make_scheduler(trainer.optimizer, settings, total_steps, part)
    train_to_end(trainer, last_checkpoint(checkpoints), total_steps)
    if trainer.guard is not None:
        trainer.guard.check(checkpoints)
