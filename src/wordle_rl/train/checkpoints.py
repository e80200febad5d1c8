"""Checkpoint directories: found, marked as complete, removed.

A checkpoint is `checkpoint-STEP`. Its last file, written once all others are on the disk, holds the state of the
training and the sizes of the other files; a directory without it was cut off by a kill and is ignored.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wordle_rl.runs import RunError, read_object, write_json

STATE_FILE = "wordle_rl_state.json"
"""In every checkpoint, written last."""
_PREFIX = "checkpoint"
_FILES = "files"


def checkpoint_path(directory: Path, step: int) -> Path:
    """Directory of the checkpoint of a step."""
    return directory / f"{_PREFIX}-{step}"


def last_checkpoint(directory: Path) -> Path | None:
    """The newest complete checkpoint below a directory, or None.

    Raises:
        RunError: If a file of it has been removed or cut since.
    """
    marked = [path.parent for path in directory.glob(f"{_PREFIX}-*/{STATE_FILE}")]
    if not marked:
        return None
    newest = max(marked, key=step_of)
    for name, size in read_object(newest / STATE_FILE).get(_FILES, {}).items():
        file = newest / name
        if not file.is_file() or file.stat().st_size != size:
            raise RunError(
                f"checkpoint {newest} lacks {name}, or a part of it; put it back, or delete {newest} to train again"
            )
    return newest


def stored_state(checkpoint: Path) -> dict[str, Any]:
    """The state of the training that a complete checkpoint holds."""
    state = read_object(checkpoint / STATE_FILE)
    state.pop(_FILES, None)
    return state


def complete_checkpoint(checkpoint: Path, state: Mapping[str, Any]) -> None:
    """Mark a checkpoint as complete, once all of it is on the disk, and then remove all others.

    The step decides which is newest. Times would not do: the clock of a machine may be set back.

    Args:
        checkpoint: A directory that no process writes to any longer.
        state: The state of the training, stored with it.

    Raises:
        RunError: If it cannot be written.
    """
    (checkpoint / f".{STATE_FILE}.partial").unlink(missing_ok=True)  # what a kill left of the mark
    files = [path for path in sorted(checkpoint.rglob("*")) if path.is_file() and path.name != STATE_FILE]
    for file in files:
        _sync(file)
    sizes = {path.relative_to(checkpoint).as_posix(): path.stat().st_size for path in files}
    write_json(checkpoint / STATE_FILE, {**state, _FILES: sizes})
    for other in checkpoint.parent.glob(f"{_PREFIX}-*"):
        if other != checkpoint:
            shutil.rmtree(other, ignore_errors=True)


def _sync(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def last_step(directory: Path) -> int:
    """The step of the newest complete checkpoint below a directory, from which training resumes; 0: there is none."""
    found = last_checkpoint(directory)
    return 0 if found is None else step_of(found)


def step_of(checkpoint: Path) -> int:
    """The optimizer step of a checkpoint, from its name."""
    return int(checkpoint.name.rsplit("-", 1)[1])


def drop_checkpoints(directory: Path) -> None:
    """Remove the checkpoints of a finished stage; the finished model stands beside them."""
    shutil.rmtree(directory, ignore_errors=True)
