"""Laws of the memory of a training under verl: all processes count, once each, and growth is found."""

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
HOLD = "import sys, time; kept = bytearray(b'x') * 2**25; print('held', flush=True); sys.stdin.read()"
BOTH = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {HOLD!r}], stdin=sys.stdin)
{HOLD}
"""


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def test_memory_of_children_and_of_theirs_is_added_up() -> None:
    from verl_memory import read_tree

    process = subprocess.Popen([sys.executable, "-c", BOTH], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert [process.stdout.readline() for _ in range(2)] == ["held\n"] * 2
    reading = read_tree(psutil.Process(), 7)
    process.communicate()
    assert reading.done == 7
    assert 64 <= reading.memory_mib < 400
    assert reading.threads >= 2
    assert reading.files >= 6


def test_a_process_that_has_ended_holds_nothing() -> None:
    from verl_memory import held_by

    process = subprocess.Popen([sys.executable, "-c", "pass"])
    about = psutil.Process(process.pid)
    while about.status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    assert held_by(about) == (0.0, 0, 0)
    process.wait()
    assert held_by(about) == (0.0, 0, 0)


def test_the_range_is_that_of_ten_steps_after_the_first_ten() -> None:
    from readings import Reading
    from verl_memory import range_of

    def held(by_step) -> list[Reading]:
        return [Reading(step, by_step(step), 1, 1) for step in range(1, 201) for _ in range(2)]

    assert range_of(held(lambda step: 1000 if step > 10 else 200)) == 0
    assert range_of(held(lambda step: 1000 + 900 * (step % 10 == 3))) == 0  # a moment's need is no growth
    assert range_of(held(lambda step: 1000 + step)) == pytest.approx(1195.5 / 1015.5 - 1)
    with pytest.raises(ValueError, match="--steps"):
        range_of(held(lambda _: 1)[:18])
