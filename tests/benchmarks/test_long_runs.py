"""Laws of the long runs: each reads its process all along, growth is found, and short ones hold what they held."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def run(*arguments: str) -> dict:
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "long_runs.py", *arguments], capture_output=True, text=True, check=False
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def test_growth_is_that_after_the_first_quarter(monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from readings import Reading, growth

    rising = [Reading(number, 100 + 100 * (number >= 10) + number, 4, 8) for number in range(1, 41)]
    assert growth(rising)["memory"] == pytest.approx((240 - 211) / 211)
    leaking = [Reading(number, 100, 4 + number // 20, 8 + number) for number in range(1, 41)]
    assert growth(leaking)["memory"] == pytest.approx(0)
    assert growth(leaking)["threads"] == 0.25
    assert growth(leaking)["files"] == pytest.approx(39 / 9 - 1)


@pytest.mark.slow
def test_the_server_ends_silent_sessions_by_its_own_clock_and_holds_what_it_held(tmp_path) -> None:
    found = run("server", "--hours", "1.5", "--record", str(tmp_path / "r.json"), "--svg", str(tmp_path / "r.svg"))
    assert found["silent_sessions"] >= 3
    assert 1750 < found["ended_after_s"] < 2400
    assert found["turns"] > 0
    assert found["growth"]["memory"] < 0.05
    assert "<svg" in (tmp_path / "r.svg").read_text()
    assert len(json.loads((tmp_path / "r.json").read_text())["readings"]) >= 10
