"""Laws of commands that are killed at random moments: started again, they leave the files of a run that never was."""

import time
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("openai")

from kills import KILLS, LEARNT, make_case, run_kills, run_unbroken
from safetensors.torch import load_file
from training_fixtures import rows

from wordle_rl.policy.directory import find_model

pytestmark = pytest.mark.faults

SERVER_SHARE = 10
"""Of a hundred kills, those of the server."""


def share(name: str, kills: int) -> int:
    """The kills of a command, at least one."""
    return max(1, round(KILLS[name] * kills / (sum(KILLS.values()) + SERVER_SHARE)))


def check_learnt(name: str, run: Path) -> None:
    """Every round of a training learnt from its own games, and its weights are not those it began with."""
    assert all(row[LEARNT[name]] > 0 for row in rows(run / "metrics.jsonl") if row["stage"] == name)
    assert (run / "labels.jsonl").stat().st_size > 0
    before, after = (load_file(place / "model.safetensors") for place in (find_model(Path("bundled")), run / name))
    assert before.keys() == after.keys()
    assert any(not before[weight].equal(after[weight]) for weight in before)


@pytest.mark.parametrize("name", list(KILLS))
def test_killed_at_any_moment_it_ends_with_the_same_files(
    name, fork_server, kill_record, word_directory, taught, endpoint, tmp_path, request
) -> None:
    case = make_case(name, word_directory, taught, endpoint)
    wanted = share(name, request.config.getoption("--kills", 20))
    started = time.monotonic()
    unbroken = run_unbroken(fork_server, case, tmp_path / "unbroken")
    for path in (tmp_path / "unbroken").rglob("metrics.jsonl"):
        steps: dict[str, list[float]] = {}
        for row in rows(path):
            steps.setdefault(row["stage"], []).append(row["step"])
        assert all(found == sorted(found) for found in steps.values())
    if name in LEARNT:
        check_learnt(name, tmp_path / "unbroken" / "run")
    trials = run_kills(fork_server, case, tmp_path, unbroken, kill_record.seed, wanted)
    kill_record.rows.append((name, wanted, trials, time.monotonic() - started))
