"""Finding complete checkpoints, keeping their models, removing them, and saving the trained model."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.models.loading import save_model


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


class StepModels(TrainerCallback):
    """Keeps the models of checkpoints, each as a model directory of its own, `step-20` for one.

    Args:
        trainer: The training.
        codec: Tokenizer and template that go with the weights.
        directory: Where the models go.
        limit: Keep the last this many; -1: all, 0: none.
    """

    def __init__(self, trainer: Trainer, codec: ChatCodec, directory: Path, limit: int) -> None:
        self._trainer, self._codec, self._directory, self._limit = trainer, codec, directory, limit

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Save the model of this step, in every process, and remove those beyond the limit."""
        del args, control
        if not self._limit:
            return
        save_trained(self._trainer, self._codec, self._directory / f"step-{state.global_step}")
        if self._limit > 0 and state.is_world_process_zero:
            for old in sorted(self._directory.glob("step-*"), key=step_of)[: -self._limit]:
                shutil.rmtree(old)


def last_checkpoint(directory: Path, *needed: str) -> str | None:
    """The newest complete checkpoint below a directory, or None.

    A process that was killed may leave an incomplete checkpoint, which is skipped.

    Args:
        directory: Where the checkpoints are.
        needed: Files a checkpoint must hold besides the trainer's own state, which is written last.
    """
    whole = [
        checkpoint
        for checkpoint in directory.glob(f"{PREFIX_CHECKPOINT_DIR}-*")
        if all((checkpoint / name).is_file() for name in (TRAINER_STATE_NAME, *needed))
    ]
    return str(max(whole, key=step_of)) if whole else None


def step_of(checkpoint: Path) -> int:
    """The optimizer step of a checkpoint, from its name."""
    return int(checkpoint.name.rsplit("-", 1)[1])


def drop_checkpoints(directory: Path) -> None:
    """Remove the checkpoints of a finished stage; the finished model stands beside them."""
    shutil.rmtree(directory, ignore_errors=True)
