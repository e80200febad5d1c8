"""Laws of checkpoints: whole ones count, the step decides which is newest, and a file that is gone is named."""

import os
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

from wordle_rl.runs import RunError
from wordle_rl.train.checkpoints import complete_checkpoint, last_checkpoint, last_step, stored_state

NAMES = ("model.safetensors", "optimizer.pt", "shards/__0_0.distcp", "config.json")


def saved(directory: Path, step: int) -> Path:
    checkpoint = directory / f"checkpoint-{step}"
    for name in NAMES:
        (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
        (checkpoint / name).write_text(f"{name} of {step}")
    return checkpoint


def test_a_checkpoint_counts_once_it_is_marked_and_then_takes_the_place_of_all_others(tmp_path: Path) -> None:
    first = saved(tmp_path, 9)
    assert (last_checkpoint(tmp_path), last_step(tmp_path)) == (None, 0)
    complete_checkpoint(first, {"cumulative_wins": 3})
    second = saved(tmp_path, 10)
    assert (last_checkpoint(tmp_path), last_step(tmp_path)) == (first, 9)
    complete_checkpoint(second, {"cumulative_wins": 4})
    assert (last_checkpoint(tmp_path), last_step(tmp_path)) == (second, 10)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-10"]
    assert stored_state(second) == {"cumulative_wins": 4}


def test_a_clock_that_was_set_back_keeps_the_newest_checkpoint(tmp_path: Path) -> None:
    """By their times, a checkpoint from before the clock was set would be the newer one."""
    old = saved(tmp_path, 10)
    complete_checkpoint(old, {})
    tomorrow = time.time() + 86_400
    for path in (*old.iterdir(), old):
        os.utime(path, (tomorrow, tomorrow))
    complete_checkpoint(saved(tmp_path, 20), {})
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-20"]


@pytest.mark.parametrize("damage", ["removed", "cut"])
def test_a_file_that_a_checkpoint_has_lost_is_named(damage: str, tmp_path: Path) -> None:
    checkpoint = saved(tmp_path, 10)
    complete_checkpoint(checkpoint, {})
    file = checkpoint / "optimizer.pt"
    file.unlink() if damage == "removed" else file.write_text("opt")
    with pytest.raises(RunError, match=r"checkpoint-10\b.*\boptimizer\.pt"):
        last_checkpoint(tmp_path)
