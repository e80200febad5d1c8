"""Checkpoint directories: find, complete and remove them.

A checkpoint is a directory `checkpoint-STEP`. Its state file is written last, once all other files are on disk. It
holds the state of the training, and size and hash of those files. A directory without one was cut off and is ignored.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from wordle_rl.runs import read_object, write_json
from wordle_rl.runs.seal import check_marks, marks_of

STATE_FILE = "wordle_rl_state.json"
"""Marks a complete checkpoint; written last."""
_PREFIX = "checkpoint"
_FILES = "files"


def checkpoint_path(directory: Path, step: int) -> Path:
    """Return the directory of the checkpoint of a step."""
    return directory / f"{_PREFIX}-{step}"


def last_checkpoint(directory: Path) -> Path | None:
    """Return the newest complete checkpoint in a directory, or None; refuse one that has lost a file since."""
    marked = [path.parent for path in directory.glob(f"{_PREFIX}-*/{STATE_FILE}")]
    if not marked:
        return None
    newest = max(marked, key=step_of)
    _check(newest, read_object(newest / STATE_FILE), lambda _name: False)
    return newest


def stored_state(checkpoint: Path) -> dict[str, Any]:
    """Return the training state that a complete checkpoint holds; refuse one of which any byte has changed."""
    state = read_object(checkpoint / STATE_FILE)
    _check(checkpoint, state)
    state.pop(_FILES, None)
    return state


def _check(checkpoint: Path, state: Mapping[str, Any], is_read: Callable[[str], bool] | None = None) -> None:
    check_marks(checkpoint, state.get(_FILES, {}), f"restore it, or delete {checkpoint} to train again", is_read)


def complete_checkpoint(checkpoint: Path, state: Mapping[str, Any]) -> None:
    """Mark a checkpoint that no process writes to any more as complete, and remove all others."""
    (checkpoint / f".{STATE_FILE}.partial").unlink(missing_ok=True)  # left by a kill
    files = (path for path in checkpoint.rglob("*") if path.is_file() and path.name != STATE_FILE)
    write_json(checkpoint / STATE_FILE, {**state, _FILES: marks_of(checkpoint, files)})
    for other in checkpoint.parent.glob(f"{_PREFIX}-*"):
        if other != checkpoint:
            shutil.rmtree(other, ignore_errors=True)


def last_step(directory: Path) -> int:
    """Return the step of the newest complete checkpoint in a directory; 0 if there is none."""
    found = last_checkpoint(directory)
    return 0 if found is None else step_of(found)


def step_of(checkpoint: Path) -> int:
    """Return the optimizer step in the name of a checkpoint."""
    return int(checkpoint.name.rsplit("-", 1)[1])  # not the time of the file: a clock may be set back


def drop_checkpoints(directory: Path) -> None:
    """Remove the checkpoints of a finished stage."""
    shutil.rmtree(directory, ignore_errors=True)
