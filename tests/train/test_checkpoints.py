"""Laws of checkpoints: whole ones count, the step decides which is newest, and a file that is gone is named."""

import os
import shutil
import time
from pathlib import Path

import pytest

from wordle_rl.runs import RunError
from wordle_rl.train.checkpoints import complete_checkpoint, last_checkpoint, last_step, stored_state

NAMES = ("model.safetensors", "optimizer.pt", "shards/__0_0.distcp", "config.json")


def saved(directory: Path, step: int) -> Path:
    checkpoint = directory / f"checkpoint-{step}"
    for name in NAMES:
        (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
        (checkpoint / name).write_text(f"{name} of {step}")
    return checkpoint


def test_a_checkpoint_counts_once_it_is_marked_and_the_step_decides_which_is_newest(tmp_path: Path) -> None:
    first = saved(tmp_path, 9)
    assert (last_checkpoint(tmp_path), last_step(tmp_path)) == (None, 0)
    complete_checkpoint(first, {"cumulative_wins": 3})
    kept = shutil.copytree(first, tmp_path / "kept")
    second = saved(tmp_path, 10)
    assert (last_checkpoint(tmp_path), last_step(tmp_path)) == (first, 9)
    complete_checkpoint(second, {"cumulative_wins": 4})
    assert not first.exists()
    shutil.copytree(kept, first)  # as if killed before the others were removed, and with a clock that was set back
    tomorrow = time.time() + 86_400
    for path in (*first.iterdir(), first):
        os.utime(path, (tomorrow, tomorrow))
    assert (last_checkpoint(tmp_path), last_step(tmp_path)) == (second, 10)
    assert stored_state(second) == {"cumulative_wins": 4}


@pytest.mark.parametrize("damage", ["removed", "cut"])
def test_a_file_that_a_checkpoint_has_lost_is_named(damage: str, tmp_path: Path) -> None:
    checkpoint = saved(tmp_path, 10)
    complete_checkpoint(checkpoint, {})
    file = checkpoint / "optimizer.pt"
    file.unlink() if damage == "removed" else file.write_text("opt")
    with pytest.raises(RunError, match=r"checkpoint-10\b.*\boptimizer\.pt"):
        last_checkpoint(tmp_path)
