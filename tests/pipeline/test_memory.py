"""Laws of a stage's memory: what is printed adds up, and a run stores and prints it for every training."""

from pathlib import Path

import pytest
from rich.console import Console

from wordle_rl.config import RunConfig
from wordle_rl.pipeline.work import RunWork, memory_now
from wordle_rl.runs import read_object


def test_a_training_prints_both_and_stores_them_with_its_seconds(tmp_path: Path) -> None:
    console = Console(record=True, width=200, force_terminal=False)
    work = RunWork.of(RunConfig(), tmp_path, console)
    with console.capture() as captured, work.training("sft", "SFT") as tell:
        tell(1, 1, "loss 0.1")
    lines = captured.get().splitlines()
    assert "GiB in all" in lines[0]
    assert lines[-1].startswith("sft: ")
    assert "peak" in lines[-1]
    stored = read_object(tmp_path / "timings.json")
    assert stored["memory"]["sft"]["total_gib"] == pytest.approx(memory_now().total_gib, abs=0.01)
    assert "sft" in stored["seconds"]
    again = RunWork.of(RunConfig(), tmp_path, console)
    again.remember()
    assert again.memory == stored["memory"]
