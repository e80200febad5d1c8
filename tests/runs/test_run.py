"""Laws of the run directory: every file is whole or absent, damage is named; and of progress outside a terminal."""

import io
import json
import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from training_fixtures import make_run

from wordle_rl import __version__
from wordle_rl.config.run import RunConfig
from wordle_rl.config.stages import GRPOSettings
from wordle_rl.data.game_record import GameRecord, TurnRecord
from wordle_rl.env import StopReason
from wordle_rl.report.terminal import game_progress
from wordle_rl.runs import LOCK_FILE, Run, RunError, exclusive_lock, provenance, read_object, reset_run, write_json
from wordle_rl.runs.progress import in_percent, show_progress
from wordle_rl.runs.provenance import calls, main_memory_bytes, manifest, resident_memory_gib, unused_memory_bytes
from wordle_rl.words import WordList
from wordle_rl.words.split import split_secrets

SMALL_DISK = 4096


@contextmanager
def small_disk() -> Iterator[None]:
    """Files may not grow beyond 4 KiB in here, as on a disk that is full.

    Around single calls only: the limit holds for pytest's own output too, where that goes to a file.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL_DISK, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    write_json(path, {"old": True})
    with small_disk(), pytest.raises(RunError, match=r"results\.json"):
        write_json(path, {"new": "x" * 3 * SMALL_DISK})
    assert json.loads(path.read_text()) == {"old": True}
    assert list(tmp_path.iterdir()) == [path]


def test_a_directory_of_something_else_is_refused_and_left_alone(tmp_path: Path, sixty, split) -> None:
    made = make_run(tmp_path / "run", sixty).directory
    before = [path.read_bytes() for path in made.iterdir()]
    fewer = split_secrets(WordList("fewer", sixty.answers[1:], sixty.guesses))
    for config, words in ((RunConfig(seed=1), split), (RunConfig(), fewer)):
        with pytest.raises(RunError, match="--out"):
            Run.create(made, config, words)
    assert [path.read_bytes() for path in made.iterdir()] == before
    (tmp_path / "config.json").write_text('{"model_type": "qwen3"}')  # of a model
    with pytest.raises(RunError, match="--out"):
        Run.create(tmp_path, RunConfig(), split)


def test_the_manifest_says_what_made_the_run(sixty, split) -> None:
    facts = manifest(RunConfig(seed=7), split)
    assert (facts["wordle_rl"], facts["fingerprint"], facts["seed"]) == (__version__, sixty.fingerprint, 7)
    assert (facts["selected_on"], facts["reported_on"]) == (None, "test")
    assert manifest(RunConfig(grpo=GRPOSettings(validate_every_steps=5)), split)["selected_on"] == "val"
    parts = facts["split"]
    assert sorted([*parts["train"], *parts["val"], *parts["test"]]) == list(sixty.answers)
    assert {"torch", "transformers", "trl", "numpy"} <= set(facts["libraries"])
    assert facts["hardware"]["cores"] == len(os.sched_getaffinity(0))
    assert facts["hardware"]["memory_gib"] > 0
    assert facts["command"].startswith("wordle-rl")
    assert json.loads(json.dumps(facts, allow_nan=False)) == json.loads(json.dumps(facts))


def test_the_commit_is_read_without_writing_to_the_checkout(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        return subprocess.run(
            ["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout

    git("init", "-q")
    (source := tmp_path / "a.py").write_text("a = 1\n")
    git("add", "a.py")
    git("commit", "-qm", "a")
    commit, index = git("rev-parse", "--short=12", "HEAD").strip(), tmp_path / ".git" / "index"
    os.utime(source, (1, 1))  # same content: git would note the new time
    before = index.read_bytes()
    assert provenance._git_commit(source) == commit
    assert index.read_bytes() == before
    source.write_text("a = 2\n")
    assert provenance._git_commit(source) == f"{commit}-dirty"


def test_the_manifest_keeps_how_the_run_was_begun_and_adds_later_calls(tmp_path: Path, split, monkeypatch) -> None:
    def call(command: str, commit: str, **options: bool) -> dict:
        monkeypatch.setattr("sys.argv", ["wordle-rl", command])
        monkeypatch.setattr("wordle_rl.runs.provenance._git_commit", lambda: commit)
        Run.create(tmp_path, RunConfig(), split, **options)
        return read_object(tmp_path / "manifest.json")

    first = call("sft", "aaa")
    assert call("sft", "aaa") == first
    assert call("run", "bbb", adds=False) == first
    second = call("run", "bbb")
    assert {name: value for name, value in second.items() if name != "later_calls"} == first
    commands = [(each["command"], each["git_commit"]) for each in calls(second)]
    assert commands == [("wordle-rl sft", "aaa"), ("wordle-rl run", "bbb")]
    assert call("run", "bbb") == second
    assert calls(second)[1]["hardware"] == first["hardware"]


def test_only_runs_are_removed_and_only_when_nobody_works_on_them(tmp_path: Path) -> None:
    reset_run(tmp_path / "nowhere")
    for name in ("thesis.txt", "config.json"):  # the latter as beside the weights of any model of transformers
        (tmp_path / name).write_text("{}")
        with pytest.raises(RunError, match=str(tmp_path)):
            reset_run(tmp_path)
    (tmp_path / "manifest.json").write_text("{}")
    with exclusive_lock(tmp_path / LOCK_FILE), pytest.raises(RunError):
        reset_run(tmp_path)
    assert (tmp_path / "config.json").is_file()
    reset_run(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"thesis.txt"}, "what is not of the run stays"


@pytest.fixture
def clock(monkeypatch) -> SimpleNamespace:
    """Time that passes when it is told to."""
    ours = SimpleNamespace(now=1000.0)
    monkeypatch.setattr("wordle_rl.runs.progress.time.monotonic", lambda: ours.now)
    return ours


def test_a_log_gets_a_line_every_half_minute_at_most_and_a_last_one(clock) -> None:
    out = io.StringIO()
    with show_progress(Console(file=out, width=40), "[b]GRPO", 0) as tell:
        for step in range(1, 103):
            clock.now += 7.0
            tell(step, 102, f"win_rate {step / 102:.2f}")
    lines = out.getvalue().splitlines()
    assert len(lines) == 102 // 5 + 1
    assert lines[0] == "[b]GRPO: 5 of 102, 35 s so far, 7.0 s each, 11 min left, win_rate 0.05"
    assert lines[-1] == "[b]GRPO: 102 of 102, 12 min so far, win_rate 1.00"


def test_games_kept_from_before_took_no_time(clock) -> None:
    won = GameRecord("crane", (TurnRecord("crane", "GGGGG"),), stop_reason=StopReason.SOLVED)
    failed = GameRecord("crane", (), stop_reason=StopReason.REQUEST_FAILED, error="down")
    out = io.StringIO()
    with game_progress(Console(file=out, width=40), "m plays", 100, [won] * 40) as tell:
        clock.now += 60
        for record in (won, failed):
            tell(record)
    first, last = out.getvalue().splitlines()
    assert first == "m plays: 41 of 100, 1 min so far, 41 won, 0 errors"
    assert last == "m plays: 42 of 100, 1 min so far, 30 s each, 29 min left, 41 won, 1 errors"


@given(total=st.integers(1, 10_000_000), data=st.data(), digits=st.integers(0, 2))
def test_a_share_reads_as_0_or_100_only_if_it_is(total: int, data: st.DataObject, digits: int) -> None:
    share = data.draw(st.integers(0, total)) / total
    text = in_percent(share, digits)
    assert (float(text) in (0, 100)) == (share in (0, 1))
    decimals = len(text.partition(".")[2])
    assert decimals >= digits
    assert float(text) == pytest.approx(100 * share, abs=0.500001 / 10**decimals)


GIB = 1024**3


@pytest.mark.parametrize(("limit", "expected"), [("1048576\n", 1048576), ("max\n", None), (None, None)])
def test_a_container_s_share_counts_as_main_memory(limit, expected, tmp_path) -> None:
    if limit is not None:
        (tmp_path / "memory.max").write_text(limit)
    found = main_memory_bytes(tmp_path / "memory.max")
    assert found is not None
    assert found == expected if expected else found > GIB // 2


@pytest.mark.skipif(resident_memory_gib() is None, reason="this system does not say what a process takes")
def test_memory_that_other_processes_take_is_not_unused(tmp_path) -> None:
    limit, usage = tmp_path / "memory.max", tmp_path / "meminfo"
    limit.write_text(f"{3 * GIB}\n")
    usage.write_text(f"MemFree:  1 kB\nMemAvailable:   {1 << 20} kB\nCached:  2 kB\n")
    assert unused_memory_bytes(limit, usage) == GIB, "others take the rest"
    usage.write_text(f"MemAvailable:   {5 << 20} kB\n")
    left = 3 * GIB - resident_memory_gib() * GIB
    for told in (usage, tmp_path / "nothing"):
        assert unused_memory_bytes(limit, told) == pytest.approx(left, rel=0.02), "the container's limit lies below"
