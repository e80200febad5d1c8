"""Laws of the whole chain in miniature: every figure is there, nothing is done twice, wrong inputs write nothing."""

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch")

from rich.console import Console
from training_fixtures import NUM_ANSWERS, begun, rows, write_config

from wordle_rl.config import ALGORITHM_NAMES, ConfigError, load_config
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.evaluate.strata import strata_of_run
from wordle_rl.pipeline import Pipeline, evaluation, stages
from wordle_rl.policy.directory import find_model
from wordle_rl.report.run_record import read_run
from wordle_rl.runs.lineage import audit
from wordle_rl.words.split import split_secrets

QUIET = Console(quiet=True)
FIGURES = {
    "num_games", "win_rate", "win_rate_low", "win_rate_high", "mean_guesses_on_wins", "mean_guesses_with_losses",
    "invalid_rate", "repeated_rate", "clue_violating_rate", "malformed_rate", "mean_regret",
}  # fmt: skip


def tree(directory: Path) -> dict[str, tuple[int, int]]:
    """Every file with its size and time of change."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return {str(p.relative_to(directory)): (p.stat().st_size, p.stat().st_mtime_ns) for p in files}


def results_of(directory: Path) -> dict:
    return json.loads((directory / "results.json").read_text())


def test_results_hold_every_figure_of_both_models_on_every_part(finished_run, sixty) -> None:
    results, split = results_of(finished_run), split_secrets(sixty)
    assert set(results) == {"sft", "grpo", "seconds", "peak_memory_gib", "memory"}
    strata = strata_of_run(finished_run).named()
    sizes = {"all": NUM_ANSWERS, "train": len(split.train), "held_out": len(split.test)}
    sizes |= {part: len(words) for part, words in strata.items() if words}
    for name in ("sft", "grpo"):
        assert set(results[name]) == set(sizes)
        for part, size in sizes.items():
            figures = results[name][part]
            assert set(figures) >= FIGURES
            assert figures["num_games"] == size
            assert 0 <= figures["win_rate_low"] <= figures["win_rate"] <= figures["win_rate_high"] <= 1
            assert 1 <= figures["mean_guesses_with_losses"] <= 7
            assert figures["mean_regret"] >= 0
            for rate in ("invalid_rate", "repeated_rate", "clue_violating_rate", "malformed_rate"):
                assert 0 <= figures[rate] <= 1


def test_constrained_play_is_shown_apart(finished_run, tmp_path: Path) -> None:
    directory = tmp_path / "constrained"
    shutil.copytree(finished_run, directory)
    settings = json.loads((directory / "config.json").read_text())
    settings["eval"]["also"] = ["constrained"]
    (directory / "config.json").write_text(json.dumps(settings))
    before = results_of(finished_run)
    results = Pipeline(load_config(directory / "config.json"), directory, QUIET)()
    for name in ("sft", "grpo"):
        limited = results[name].pop("held_out_constrained")
        assert results[name] == before[name]
        assert limited["num_games"] == before[name]["held_out"]["num_games"]
        assert limited["invalid_rate"] == 0.0
        stored = Evaluation.load(directory / "eval" / f"{name}-constrained.json")
        assert (stored.constrain, stored.label) == ("words", f"{name} (constrained)")
    (directory / "results.json").unlink()
    read = read_run(directory).results
    assert read["grpo"]["held_out_constrained"] == limited
    assert {name: set(parts) for name, parts in read.items()} == {
        name: {*before[name], "held_out_constrained"} for name in ("sft", "grpo")
    }


def test_no_held_out_secret_was_trained_on(finished_run, sixty) -> None:
    split = split_secrets(sixty)
    held_out = {*split.val, *split.test}
    assert not held_out & {row["secret"] for row in rows(finished_run / "traces.jsonl")}
    assert not held_out & {s for row in rows(finished_run / "secrets.jsonl") for s in row["secrets"]}
    assert audit(finished_run).clean
    assert [row["secret"] for row in rows(finished_run / "validation_traces.jsonl")] == list(split.val)
    assert [r["step"] for r in rows(finished_run / "metrics.jsonl") if "validation_loss" in r] == [-(-200 // 32)]


def test_the_same_run_again_does_no_work(finished_run, monkeypatch) -> None:
    def refuse(*_args: object, **_kwargs: object) -> None:
        raise AssertionError("a finished stage was worked on again")

    for room, name in ((stages, "write_solver_traces"), (stages, "encode_traces"), (evaluation, "evaluate")):
        monkeypatch.setattr(room, name, refuse)
    before, results = tree(finished_run), results_of(finished_run)
    again = Pipeline(load_config(finished_run / "config.json"), finished_run, QUIET)()
    assert again == results == results_of(finished_run)
    after = tree(finished_run)
    rewritten = {name for name in after if after[name] != before.get(name)}
    assert set(before) == set(after)
    assert rewritten <= {"config.json", "manifest.json", "results.json", "strata.json", "report.html"}


def mini(tmp_path: Path, word_directory: Path, **changes: str):
    return load_config(write_config(tmp_path / "mini.toml", word_directory, **changes))


def test_stages_stop_where_told_and_go_on_later(word_directory, tmp_path: Path) -> None:
    config, directory = mini(tmp_path, word_directory, grpo__steps="0"), tmp_path / "run"
    assert Pipeline(config, directory, QUIET)("traces") is None
    assert sorted(path.name for path in directory.iterdir()) == [
        "config.json", "manifest.json", "timings.json", "traces.jsonl",
        "validation_traces.jsonl",
    ]  # fmt: skip
    traces = tree(directory)["traces.jsonl"]
    assert Pipeline(config, directory, QUIET)("sft") is None
    assert (directory / "sft" / "model.safetensors").is_file()
    assert not (directory / "results.json").exists()
    results = Pipeline(config, directory, QUIET)()
    assert results is not None
    assert set(results) == {"sft", "seconds", "peak_memory_gib", "memory"}
    assert tree(directory)["traces.jsonl"] == traces


@pytest.mark.parametrize("stage", ["sft", "traces", "dpo"])
def test_a_run_that_cannot_begin_removes_none(stage: str, finished_run, tmp_path: Path) -> None:
    directory = tmp_path / "run"
    shutil.copytree(finished_run, directory)
    before, config = tree(directory), load_config(directory / "config.json")
    changed = {
        "sft": {"model": config.model.model_copy(update={"path": "no/such/model"})},
        "traces": {"traces": config.traces.model_copy(update={"file": directory / "traces.jsonl"})},
        "dpo": {},  # no stage of this run
    }
    with pytest.raises(ConfigError, match={"sft": "no/such/model", "traces": "--overwrite", "dpo": "dpo"}[stage]):
        Pipeline(config.model_copy(update=changed[stage]), directory, QUIET, overwrite=True)(stage)
    assert tree(directory) == before


def test_play_trains_on_the_secrets_kept_from_the_teacher(word_directory, sixty, tmp_path: Path) -> None:
    changes = {"traces__rl_only_fraction": "0.3"}
    directory = tmp_path / "run"
    Pipeline(mini(tmp_path, word_directory, **changes), directory, QUIET)("grpo")
    train = split_secrets(sixty).train
    kept = {*train[-int(0.3 * len(train)) :]}
    assert kept
    taught = {row["secret"] for row in rows(directory / "traces.jsonl")} & set(sixty.answers)
    assert taught == {*train} - kept
    played = {secret for row in rows(directory / "secrets.jsonl") for secret in row["secrets"]}
    assert played
    assert played <= kept


@pytest.mark.parametrize("name", ["expert_iteration", "dpo", "distill"])
def test_another_algorithm_follows_sft_and_is_reported_by_its_name(name, finished_run, sixty, tmp_path: Path) -> None:
    stored = load_config(finished_run / "config.json")
    shared = stored.rl.model_copy(update={"rounds": 2, "groups_per_round": 8, "group_size": None})
    config = stored.model_copy(update={"algorithm": name, "rl": shared})
    directory = begun(config, tmp_path / "run", finished_run)
    results = Pipeline(config, directory, QUIET)()
    assert results is not None
    assert set(results) == {"sft", name, "seconds", "peak_memory_gib", "memory"}
    assert results[name]["all"]["num_games"] == NUM_ANSWERS
    assert results["seconds"][name] > 0
    lines = [row for row in rows(directory / "metrics.jsonl") if row["stage"] == name]
    assert [row["step"] for row in lines] == [1, 2]
    assert audit(directory).num_secrets["secrets.jsonl"] == 16
    assert audit(directory).clean
    assert find_model(directory) == directory / name
    assert f"{ALGORITHM_NAMES[name]} minus SFT" in (directory / "report.html").read_text()
