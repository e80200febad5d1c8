"""Finding complete checkpoints, removing them, and saving the trained model."""

from __future__ import annotations

import shutil
from pathlib import Path

from transformers import PreTrainedModel, Trainer
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


def steps_done(directory: Path) -> int:
    """Optimizer steps that a training resumes after, from its checkpoints; 0 if it begins."""
    checkpoint = last_checkpoint(directory)
    return step_of(Path(checkpoint)) if checkpoint is not None else 0


def step_of(checkpoint: Path) -> int:
    """The optimizer step of a checkpoint, from its name."""
    return int(checkpoint.name.rsplit("-", 1)[1])


def drop_checkpoints(directory: Path) -> None:
    """Remove the checkpoints of a finished stage; the finished model stands beside them."""
    shutil.rmtree(directory, ignore_errors=True)
