"""Laws of the benchmark of memory: it compares two steps that there are, or says which there are."""

import subprocess
import sys
from pathlib import Path

import pytest

from wordle_rl.runs import write_jsonl

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "memory.py"


def run(directory: Path, *options: object) -> tuple[int, str, str]:
    command = [sys.executable, SCRIPT, directory, *options]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def six_steps(tmp_path: Path) -> Path:
    rows = ({"stage": "grpo", "step": step, "resident_memory_gib": 1 + step / 2} for step in range(1, 7))
    write_jsonl(tmp_path / "metrics.jsonl", rows)
    return tmp_path


def test_a_step_is_compared_with_the_last_one(six_steps: Path) -> None:
    assert run(six_steps, "--early", 2) == (0, "step 2: 2.000 GiB; step 6: 4.000 GiB; ratio 2.000\n", "")


@pytest.mark.parametrize("early", [(), ("--early", 6), ("--early", 0)])
def test_a_step_that_there_is_not_is_one_line(early: tuple[object, ...], six_steps: Path) -> None:
    code, out, err = run(six_steps, *early)
    assert (code, out) == (1, "")
    assert err == f"error: {six_steps} tells of steps 1 to 6 of grpo; give --early one of them before the last\n"
