"""Finding complete checkpoints, marking, keeping and removing them, and saving the trained model."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.models.loading import save_model
from wordle_rl.runs import RunError, read_object, write_json

STATE_FILE = "wordle_rl_state.json"
"""In every checkpoint, written last: the record of a training beside weights and optimizer, and the sizes of files."""
_FILES = "files"


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


def last_checkpoint(directory: Path) -> str | None:
    """The newest complete checkpoint below a directory, or None.

    A process that was killed may leave an incomplete checkpoint, which is skipped.

    Raises:
        RunError: If a file of it has been removed or cut since.
    """
    marked = [path.parent for path in directory.glob(f"{PREFIX_CHECKPOINT_DIR}-*/{STATE_FILE}")]
    if not marked:
        return None
    newest = max(marked, key=step_of)
    for name, size in stored_state(newest).get(_FILES, {}).items():
        file = newest / name
        if not file.is_file() or file.stat().st_size != size:
            raise RunError(
                f"checkpoint {newest} lacks {name}, or a part of it; put it back, or delete {newest} to train again"
            )
    return str(newest)


def stored_state(checkpoint: Path | str) -> dict[str, Any]:
    """The record of a training that a complete checkpoint keeps, and the sizes of its files."""
    return read_object(Path(checkpoint) / STATE_FILE)


def complete_checkpoint(checkpoint: Path, state: Mapping[str, Any]) -> None:
    """Mark a checkpoint as complete, once all of it is on the disk, and then remove all others.

    The step decides which is newest. Times would not do: the clock of a machine may be set back.

    Args:
        checkpoint: A directory that no process writes to any longer.
        state: The record of the training, kept with it.

    Raises:
        RunError: If it cannot be written.
    """
    (checkpoint / f".{STATE_FILE}.partial").unlink(missing_ok=True)  # what a kill left of the mark
    files = [path for path in sorted(checkpoint.rglob("*")) if path.is_file() and path.name != STATE_FILE]
    for file in files:
        _sync(file)
    sizes = {path.relative_to(checkpoint).as_posix(): path.stat().st_size for path in files}
    write_json(checkpoint / STATE_FILE, {**state, _FILES: sizes})
    for other in checkpoint.parent.glob(f"{PREFIX_CHECKPOINT_DIR}-*"):
        if other != checkpoint:
            shutil.rmtree(other, ignore_errors=True)


def _sync(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def last_step(directory: Path) -> int:
    """The step of the newest complete checkpoint below a directory, from which training resumes; 0 if there is none."""
    found = last_checkpoint(directory)
    return 0 if found is None else step_of(Path(found))


def step_of(checkpoint: Path) -> int:
    """The optimizer step of a checkpoint, from its name."""
    return int(checkpoint.name.rsplit("-", 1)[1])


def drop_checkpoints(directory: Path) -> None:
    """Remove the checkpoints of a finished stage; the finished model stands beside them."""
    shutil.rmtree(directory, ignore_errors=True)
