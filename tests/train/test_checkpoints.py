"""Laws of checkpoints: whole ones count, the step decides which is newest, and a file that is gone is named."""

import os
import re
import shutil
import time
from pathlib import Path

import pytest
from training_fixtures import flipped, halved

from wordle_rl.runs import RunError
from wordle_rl.train.checkpoints import (
    STATE_FILE,
    Place,
    checkpoint_path,
    complete_checkpoint,
    complete_checkpoints,
    drop_checkpoints,
    last_checkpoint,
    last_place,
    place_of,
    stored_state,
)

NAMES = ("model.safetensors", "optimizer.pt", "shards/__0_0.distcp", "config.json")


def saved(directory: Path, step: int, updates: int = 0) -> Path:
    checkpoint = checkpoint_path(directory, Place(step, updates))
    for name in NAMES:
        (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
        (checkpoint / name).write_text(f"{name} of {step}")
    return checkpoint


def test_a_checkpoint_counts_once_it_is_marked_and_the_step_decides_which_is_newest(tmp_path: Path) -> None:
    first = saved(tmp_path, 9)
    assert (last_checkpoint(tmp_path), last_place(tmp_path)) == (None, Place())
    complete_checkpoint(first, {"cumulative_wins": 3})
    kept = shutil.copytree(first, tmp_path / "kept")
    second = saved(tmp_path, 10)
    assert (last_checkpoint(tmp_path), last_place(tmp_path)) == (first, Place(9))
    complete_checkpoint(second, {"cumulative_wins": 4})
    assert not first.exists()
    shutil.copytree(kept, first)  # as if killed before the others were removed, and with a clock that was set back
    tomorrow = time.time() + 86_400
    for path in (*first.iterdir(), first):
        os.utime(path, (tomorrow, tomorrow))
    assert (last_checkpoint(tmp_path), last_place(tmp_path)) == (second, Place(10))
    assert stored_state(second) == {"cumulative_wins": 4}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("damage", [None, halved, flipped])
def test_a_file_that_a_checkpoint_has_lost_or_that_has_changed_is_named(damage, name: str, tmp_path: Path) -> None:
    checkpoint = saved(tmp_path, 10)
    complete_checkpoint(checkpoint, {})
    file = checkpoint / name
    content = file.read_bytes()
    file.unlink()
    if damage is not None:
        file.write_bytes(damage(content))
    with pytest.raises(RunError, match=re.escape(str(file))):
        stored_state(checkpoint)
    if damage is not flipped:  # a mere look for the newest one reads none
        with pytest.raises(RunError, match=re.escape(str(file))):
            last_checkpoint(tmp_path)


def test_a_state_that_has_changed_is_named(tmp_path: Path) -> None:
    complete_checkpoint(saved(tmp_path, 10), {"cumulative_wins": 3})
    state = tmp_path / "checkpoint-10" / STATE_FILE
    text = state.read_text()
    for changed in (text.replace("3,", "7,", 1), text.replace("cumulative", "cumulatjve"), "{}"):
        state.write_text(changed)
        with pytest.raises(RunError, match=re.escape(f"{state} has changed")):
            stored_state(state.parent)
    state.unlink()
    os.mkfifo(state)  # to open it would wait for ever
    assert last_checkpoint(tmp_path) is None


@pytest.mark.parametrize(("keep", "kept"), [(1, [4]), (2, [3, 4]), (0, [1, 2, 3, 4])])
def test_as_many_checkpoints_stay_as_were_asked_for_and_none_from_inside_a_round(keep, kept, tmp_path: Path) -> None:
    for step in range(1, 5):
        complete_checkpoint(saved(tmp_path, step - 1, 7), {}, keep)
        newest = last_checkpoint(tmp_path)
        assert newest is not None
        assert place_of(newest) == Place(step - 1, 7), "inside a round is later than its beginning"
        complete_checkpoint(saved(tmp_path, step), {}, keep)
    assert [place_of(path).done for path in complete_checkpoints(tmp_path)] == kept
    drop_checkpoints(tmp_path, keep)
    assert sorted(path.name for path in tmp_path.glob("*")) == [f"checkpoint-{step}" for step in kept * (keep != 1)]
