"""Laws of the run directory: every file is whole or absent, and damage is named."""

import json
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from training_fixtures import make_run, write_word_directory

from wordle_rl import __version__
from wordle_rl.config import GRPOSettings, RunConfig
from wordle_rl.runs import (
    LOCK_FILE,
    Run,
    RunError,
    exclusive_lock,
    read_object,
    reset_run,
    write_json,
)
from wordle_rl.runs.provenance import calls, manifest
from wordle_rl.words import load_words
from wordle_rl.words.split import Split, split_secrets

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


def files(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    write_json(path, {"old": True})
    with small_disk(), pytest.raises(RunError, match=r"cannot write .*results\.json.*free space"):
        write_json(path, {"new": "x" * 3 * SMALL_DISK})
    assert json.loads(path.read_text()) == {"old": True}
    assert files(tmp_path) == ["results.json"]


def other_words(directory: Path) -> Split:
    write_word_directory(directory)
    answers = (directory / "answers.txt").read_text().splitlines()[1:]
    (directory / "answers.txt").write_text("\n".join(answers) + "\n")
    return split_secrets(load_words(str(directory)))


@pytest.mark.parametrize("what", ["other settings", "other words", "is a file", "config.json"])
def test_a_directory_of_something_else_is_refused_and_left_alone(what: str, tmp_path: Path, sixty, split) -> None:
    place = tmp_path / "run"
    if what == "is a file":
        place.write_text("mine")
    elif what == "config.json":  # of a model
        place.mkdir()
        (place / what).write_text('{"model_type": "qwen3"}')
    else:
        make_run(place, sixty)
    before = [path.read_bytes() for path in (place, *place.glob("*")) if path.is_file()]
    config = RunConfig(seed=1) if what == "other settings" else RunConfig()
    with pytest.raises(RunError, match=rf"{what}.*name another --out"):
        Run.create(place, config, other_words(tmp_path / "words") if what == "other words" else split)
    assert [path.read_bytes() for path in (place, *place.glob("*")) if path.is_file()] == before


def test_the_manifest_says_what_made_the_run(sixty, split) -> None:
    facts = manifest(RunConfig(seed=7), split)
    assert facts["wordle_rl"] == __version__
    assert facts["fingerprint"] == sixty.fingerprint
    assert facts["seed"] == 7
    assert (facts["selected_on"], facts["reported_on"]) == (None, "test")
    choosing = RunConfig(grpo=GRPOSettings(validate_every_steps=5))
    assert manifest(choosing, split)["selected_on"] == "val"
    parts = facts["split"]
    assert sorted([*parts["train"], *parts["val"], *parts["test"]]) == list(sixty.answers)
    assert {"torch", "transformers", "trl", "numpy"} <= set(facts["libraries"])
    assert facts["hardware"]["cores"] == len(os.sched_getaffinity(0))
    assert facts["hardware"]["memory_gib"] > 0
    assert facts["command"].startswith("wordle-rl")
    assert json.loads(json.dumps(facts, allow_nan=False)) == json.loads(json.dumps(facts))


def test_a_run_is_removed_only_when_nobody_works_on_it(tmp_path: Path, sixty) -> None:
    make_run(tmp_path, sixty)
    with exclusive_lock(tmp_path / LOCK_FILE), pytest.raises(RunError, match="another process"):
        reset_run(tmp_path)
    assert (tmp_path / "config.json").is_file()


def test_the_manifest_keeps_what_the_run_was_begun_with_and_adds_what_it_went_on_with(
    tmp_path: Path, sixty, split, monkeypatch
) -> None:
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
    assert [(each["command"], each["git_commit"]) for each in calls(second)] == [
        ("wordle-rl sft", "aaa"),
        ("wordle-rl run", "bbb"),
    ]
    assert call("run", "bbb") == second
    assert calls(second)[1]["hardware"] == first["hardware"]


def test_only_runs_are_removed(tmp_path: Path) -> None:
    reset_run(tmp_path / "nowhere")
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(RunError, match="name another --out"):
        reset_run(tmp_path)
    (tmp_path / "config.json").write_text("{}")  # as beside the weights of any model of transformers
    with pytest.raises(RunError, match="name another --out"):
        reset_run(tmp_path)
    (tmp_path / "manifest.json").write_text("{}")
    reset_run(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"thesis.txt"}, "what is not of the run stays"
    (tmp_path / "thesis.txt").unlink()
