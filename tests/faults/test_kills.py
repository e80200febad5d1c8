"""Laws of commands that are killed at random moments: started again, they leave the files of a run that never was."""

import time
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("openai")

from kills import EXACT, KILLS, LEARNT, Unbroken, check_ends, check_same, make_case, run_kills, run_unbroken, snapshot
from safetensors.torch import load_file
from training_fixtures import rows

from wordle_rl.policy.directory import find_model
from wordle_rl.runs import LOCK_FILE, exclusive_lock

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


@pytest.fixture(scope="module")
def unbroken_runs() -> dict[str, Unbroken]:
    return {}


@pytest.mark.parametrize(("name", "moment"), [(name, moment) for name, moments in EXACT.items() for moment in moments])
def test_killed_at_this_moment_it_ends_with_the_same_files(
    name, moment, unbroken_runs, fork_server, word_directory, taught, tmp_path
) -> None:
    case = make_case(name, word_directory, taught, "")
    if name not in unbroken_runs:
        unbroken_runs[name] = run_unbroken(fork_server, case, tmp_path / "unbroken")
    place = case.begun_in(tmp_path / "killed")
    killed = case.run(fork_server, place, kill_at=moment)
    assert killed.code is None, f"{moment} is never reached: {killed.log}"
    check_ends(fork_server, case, place, unbroken_runs[name], moment)
    again = case.run(fork_server, place)
    assert "is finished" in again.log
    check_same(unbroken_runs[name].files, snapshot(place, case.unordered), "started again when finished")


def test_a_line_that_was_cut_off_is_reported_and_repaired(fork_server, word_directory, taught, tmp_path) -> None:
    case = make_case("sft", word_directory, taught, "")
    unbroken = run_unbroken(fork_server, case, tmp_path / "unbroken")
    place = case.begun_in(tmp_path / "cut")
    assert case.run(fork_server, place, kill_at="wordle_rl.runs.run:append_jsonl:after:5").code is None
    metrics = place / "run" / "metrics.jsonl"
    metrics.write_bytes(metrics.read_bytes()[:-9])
    ended = case.run(fork_server, place)
    assert ended.code == 0
    assert "metrics.jsonl ended in the middle of a line" in " ".join(ended.log.split())
    check_same(unbroken.files, snapshot(place), "a cut line")


def test_a_second_process_on_a_run_is_refused(fork_server, word_directory, taught, tmp_path) -> None:
    case = make_case("sft", word_directory, taught, "")
    case.begun_in(tmp_path)
    with exclusive_lock(tmp_path / "run" / LOCK_FILE):
        ended = case.run(fork_server, tmp_path)
    assert ended.code == 2
    assert "another process" in " ".join(ended.log.split())
    assert not (tmp_path / "run" / "traces.jsonl").exists()
    assert case.run(fork_server, tmp_path).code == 0
