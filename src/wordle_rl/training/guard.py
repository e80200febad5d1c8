"""Skip steps with a non-finite loss or gradient; stop after too many in a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from wordle_rl.runs import RunError
from wordle_rl.runs.distributed import num_processes
from wordle_rl.training.checkpoints import last_checkpoint


def in_any_process(wanted: bool, device: torch.device) -> bool:
    """True if `wanted` is true in any of the processes that train together; each of them must call this."""
    if num_processes() == 1:
        return wanted
    flag = torch.tensor(int(wanted), device=device)
    torch.distributed.all_reduce(flag, torch.distributed.ReduceOp.MAX)
    return bool(flag.item())


MAX_BAD_STEPS = 5
"""Bad steps in a row after which training stops."""


class StepGuard(TrainerCallback):
    """Skips steps whose loss or gradient is not finite, and stops a training after too many of them in a row.

    A gradient that is NaN turns every weight it reaches into NaN, for good. A skipped step updates neither weights nor
    optimizer; the schedule and the data move on. No checkpoint is written during bad steps, so that the last one is
    from before them; only if there is none yet, the weights are saved before training stops.

    Args:
        stage: Of the training, for the message.
    """

    def __init__(self, stage: str) -> None:
        self._stage, self._limit = stage, MAX_BAD_STEPS
        self._loss_is_bad = False
        self._in_a_row = 0
        self._skipped = 0
        self._ended_at: int | None = None

    def note_loss(self, loss: torch.Tensor) -> None:
        """Note whether the loss of a batch is finite, before the optimizer steps."""
        self._loss_is_bad = self._loss_is_bad or not bool(torch.isfinite(loss).all())

    def take_skipped(self) -> int:
        """Number of steps skipped since the last call."""
        skipped, self._skipped = self._skipped, 0
        return skipped

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Remove the gradients of a bad step: optimizers skip weights without one."""
        model: torch.nn.Module = kwargs["model"]
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        gradients = [g.to_local() if hasattr(g, "to_local") else g for g in gradients]
        norm = torch.nn.utils.get_total_norm(gradients) if gradients else torch.zeros(())
        bad = in_any_process(self._loss_is_bad or not bool(torch.isfinite(norm)), args.device)
        self._loss_is_bad = False
        self._in_a_row = self._in_a_row + 1 if bad else 0
        if bad:
            self._skipped += 1
            if args.deepspeed_plugin is not None:  # it has already applied the step, which cannot be skipped: stop now
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
        """Raise an error, once the trainer has returned, if the guard stopped it.

        Raises:
            RunError: If training was stopped because too many steps in a row were bad.
        """
        if self._ended_at is None:
            return
        section = "sft" if self._stage == "sft" else "rl"
        raise RunError(
            f"{self._stage} stopped at step {self._ended_at}: loss or gradient were not finite in {self._in_a_row} "
            f"steps in a row; the last good weights are in {last_checkpoint(checkpoints) or 'no checkpoint'}; lower "
            f"{section}.optimizer.learning_rate or set {section}.precision to fp32 in a new run"
        )
