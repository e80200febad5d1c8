"""Checkpoints: what a stopped training resumes from. Every stage has one format and one resume.

`<stage>/checkpoints/` holds:

    checkpoint-40/            after step 40 of SFT, or round 40 of learning by play
    checkpoint-3+12/          inside a round: 12 updates after the end of round 3
      model.safetensors …       weights, config and tokenizer              learner.save_checkpoint
      optimizer.pt              optimizer state                            learner.save_checkpoint
      pytorch_model_fsdp_0/ …   both, sharded, in place of these two       learner.save_checkpoint
      wordle_rl_state.json      state of the training, written last        complete_checkpoint
        num_tokens, pending …     tokens so far; updates not logged yet      TrainingLoop
        method                    priorities, compliance, wins               Method.state
        files                     size and hash of every other file
        sha256                    of the state itself
    round-4.jsonl             what the games of round 4 left to learn      play_loop.PlayedGames
    round-4.json              its size and hash, written last              play_loop.PlayedGames
    labels-4.jsonl            what the solver said in round 4              distill.FromSolver

and beside it, while GRPO selects by validation (`checkpoint_selection.py`):

    <stage>/best/             NAME.json and NAME-HASH.safetensors of best, start and end; start_wins.json

A checkpoint without its state file was cut off and is ignored. Between rounds an algorithm that begins each round with
a new optimizer stores weights alone. Rows that were logged after the checkpoint are removed when a training resumes
(`play_loop`), and random draws depend on seed and step alone, so a resumed training ends with the same bits and
the same metrics. One exception: several processes of GRPO each keep priorities of their own, and resume from the mean.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from wordle_rl.runs import RunError, trained_model
from wordle_rl.runs.checksums import check_marks, marks_of, read_record, write_record

STATE_FILE = "wordle_rl_state.json"
"""Marks a complete checkpoint; written last."""
_NAME = re.compile(r"checkpoint-(\d+)(?:\+(\d+))?")
_FILES = "files"


class Place(NamedTuple):
    """How far a training has come: steps or rounds done, and updates of the round that has begun."""

    done: int = 0
    updates: int = 0


def checkpoint_path(directory: Path, place: Place) -> Path:
    """Return the directory of the checkpoint of a place."""
    return directory / f"checkpoint-{place.done}{f'+{place.updates}' if place.updates else ''}"


def place_of(checkpoint: Path) -> Place:
    """Return the place in the name of a checkpoint."""
    found = _NAME.fullmatch(checkpoint.name)  # not the time of the file: a clock may be set back
    if found is None:
        raise RunError(f"{checkpoint} is no checkpoint")
    return Place(int(found[1]), int(found[2] or 0))


def complete_checkpoints(directory: Path) -> list[Path]:
    """Return the complete checkpoints of a directory, oldest first."""
    marked = (path.parent for path in directory.glob(f"checkpoint-*/{STATE_FILE}") if path.is_file())
    return sorted((path for path in marked if _NAME.fullmatch(path.name)), key=place_of)


def last_checkpoint(directory: Path) -> Path | None:
    """Return the newest complete checkpoint in a directory, or None; refuse one that has lost a file since."""
    complete = complete_checkpoints(directory)
    if not complete:
        return None
    newest = complete[-1]
    _check(newest, _state_of(newest), lambda _name: False)
    return newest


def last_place(directory: Path) -> Place:
    """Return the place of the newest complete checkpoint in a directory; (0, 0) if there is none."""
    found = last_checkpoint(directory)
    return Place() if found is None else place_of(found)


def stored_state(checkpoint: Path) -> dict[str, Any]:
    """Return the training state that a complete checkpoint holds; refuse one of which any byte has changed."""
    state = _state_of(checkpoint)
    _check(checkpoint, state)
    state.pop(_FILES, None)
    return state


def _state_of(checkpoint: Path) -> dict[str, Any]:
    return read_record(checkpoint / STATE_FILE, _remedy(checkpoint))


def _check(checkpoint: Path, state: Mapping[str, Any], is_read: Callable[[str], bool] | None = None) -> None:
    check_marks(checkpoint, state.get(_FILES), _remedy(checkpoint), is_read)


def _remedy(checkpoint: Path) -> str:
    return f"restore it, or delete {checkpoint} to train again"


def complete_checkpoint(checkpoint: Path, state: Mapping[str, Any], keep: int = 1) -> None:
    """Mark a checkpoint that no process writes to any more as complete, and remove others.

    The newest `keep` checkpoints between steps or rounds stay; 0: all of them.
    """
    (checkpoint / f".{STATE_FILE}.partial").unlink(missing_ok=True)  # left by a kill
    files = (path for path in checkpoint.rglob("*") if path.is_file() and path.name != STATE_FILE)
    write_record(checkpoint / STATE_FILE, {**state, _FILES: marks_of(checkpoint, files)})
    whole = [path for path in complete_checkpoints(checkpoint.parent) if not place_of(path).updates]
    kept = {checkpoint, *(whole[-keep:] if keep else whole)}
    for other in checkpoint.parent.glob("checkpoint-*"):
        if other not in kept:
            shutil.rmtree(other, ignore_errors=True)


def drop_checkpoints(directory: Path, keep: int = 1) -> None:
    """Remove what a finished stage needs no more: everything, unless more than the newest checkpoint was asked for."""
    if keep == 1:
        shutil.rmtree(directory, ignore_errors=True)
        return
    kept = {path for path in complete_checkpoints(directory) if not place_of(path).updates}
    for path in directory.iterdir() if directory.is_dir() else ():
        if path not in kept:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()


def models_of_stage(stage: Path) -> dict[str, Path]:
    """Return the kept checkpoints of a stage by name, oldest first, and its model as `end`.

    Checkpoint selection may have taken that from an earlier step than the last.
    """
    kept = complete_checkpoints(stage / "checkpoints")
    if not kept:
        raise RunError(
            f"--checkpoints needs a stage that has kept some, and {stage} has none; name RUN/STAGE, trained with "
            "save_total_limit 0 or above 1 in its section, and GRPO and SFT with save_steps"
        )
    models = {path.name.removeprefix("checkpoint-"): path for path in kept}
    return models | ({"end": stage} if trained_model(stage) == stage else {})
