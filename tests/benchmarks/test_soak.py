"""Law of the soak: after a storm the server holds what it held before, and games went on meanwhile."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "soak.py"


@pytest.mark.slow
def test_a_short_storm_leaves_no_trace() -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, "--connections", "1000", "--slow", "10", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["faults"] == []
    assert report["turns_meanwhile"] > 0
    assert report["after"]["sockets"] <= report["before"]["sockets"]  # of memory the script knows what is a trace
