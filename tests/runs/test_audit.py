"""Laws of the leak audit: it counts what was trained on and finds what should not have been."""

import json
from pathlib import Path

import pytest

from wordle_rl.config import GameSettings, RunConfig, WordSettings
from wordle_rl.runs import Run, RunError, write_jsonl
from wordle_rl.runs.lineage import Lineage, audit, lesson_of, save_lineage
from wordle_rl.words import load_words
from wordle_rl.words.split import Split, split_secrets

SPLIT: Split = split_secrets(load_words())


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = Run.create(tmp_path / "run", RunConfig(), SPLIT)
    write_jsonl(made.directory / "traces.jsonl", [{"secret": SPLIT.train[0]}, {"secret": "aahed"}])
    made.append("secrets.jsonl", {"stage": "grpo", "step": 0, "secrets": list(SPLIT.train[:3])})
    made.append("games.jsonl", {"secret": SPLIT.train[1]})
    return made


def finish(run: Run, model: str) -> None:
    """Leave what a finished stage leaves."""
    lesson = lesson_of(WordSettings(), SPLIT)
    save_lineage(run.directory / model, Lineage(game=GameSettings(), lessons=(lesson,)))


def test_clean_run_is_clean_and_counted(run: Run) -> None:
    found = audit(run.directory)
    assert found.clean
    assert found.num_secrets == {"traces.jsonl": 2, "secrets.jsonl": 3, "games.jsonl": 1}


@pytest.mark.parametrize("held_out", [SPLIT.test[0], SPLIT.val[0]])
def test_held_out_secret_is_found_in_every_record(run: Run, held_out: str) -> None:
    run.append("traces.jsonl", {"secret": held_out})
    run.append("secrets.jsonl", {"step": 1, "secrets": [SPLIT.train[5], held_out]})
    run.append("games.jsonl", {"secret": held_out})
    found = audit(run.directory)
    assert not found.clean
    assert found.leaks == (("traces.jsonl", held_out), ("secrets.jsonl", held_out), ("games.jsonl", held_out))


def test_games_that_choose_weights_may_have_validation_secrets_and_no_others(run: Run) -> None:
    run.append("games.jsonl", {"stage": "validation", "secret": SPLIT.val[0]})
    assert audit(run.directory).clean
    run.append("games.jsonl", {"stage": "validation", "secret": SPLIT.test[0]})
    assert audit(run.directory).leaks == (("games.jsonl", SPLIT.test[0]),)


def test_split_is_recomputed_and_not_taken_from_the_manifest(run: Run) -> None:
    path = run.directory / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["split"] = {"seed": 0, "train": [], "val": [], "test": []}
    path.write_text(json.dumps(manifest))
    run.append("traces.jsonl", {"secret": SPLIT.test[3]})
    assert audit(run.directory).leaks == (("traces.jsonl", SPLIT.test[3]),)


@pytest.mark.parametrize(("model", "record"), [("sft", "traces.jsonl"), ("grpo", "secrets.jsonl")])
@pytest.mark.parametrize("emptied", [False, True])
def test_a_model_without_the_record_of_its_secrets_is_not_proven_clean(
    model: str, record: str, emptied: bool, run: Run, cli
) -> None:
    finish(run, model)
    assert audit(run.directory).clean
    (run.directory / record).unlink()
    if emptied:
        (run.directory / record).touch()
    code, out, err = cli("report", run.directory, "--audit")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert all(part in err for part in ("not proven clean", model, record))


def test_a_leak_is_told_though_a_record_is_missing(run: Run) -> None:
    finish(run, "grpo")
    (run.directory / "secrets.jsonl").unlink()
    run.append("traces.jsonl", {"secret": SPLIT.test[0]})
    assert audit(run.directory).leaks == (("traces.jsonl", SPLIT.test[0]),)


def test_a_run_that_trained_and_recorded_nothing_is_not_called_clean(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", RunConfig(), SPLIT)
    with pytest.raises(RunError, match="nothing to audit"):
        audit(run.directory)


def test_a_model_whose_words_are_gone_is_not_proven_clean(run: Run) -> None:
    lesson = lesson_of(WordSettings(), SPLIT).model_copy(update={"fingerprint": "0" * 64})
    save_lineage(run.directory / "sft", Lineage(game=GameSettings(), lessons=(lesson,)))
    with pytest.raises(RunError, match="not proven clean: sft"):
        audit(run.directory)
