"""Laws of runs without SFT: learning by play starts from the model of model.path, which is evaluated as `base`."""

from pathlib import Path

import pytest
from rich.console import Console
from safetensors.torch import load_file
from training_fixtures import rows, write_config

from wordle_rl.boards import InitialState
from wordle_rl.config.files import load_config
from wordle_rl.config.stages import stage_title
from wordle_rl.evaluate.players import open_model
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.pipeline import Pipeline
from wordle_rl.policy.adapters import is_adapter
from wordle_rl.rollout import play
from wordle_rl.runs.lineage import audit, lineage_of
from wordle_rl.words import load_words

QUIET = Console(quiet=True)


@pytest.fixture(scope="module")
def taught(word_directory, tmp_path_factory) -> Path:
    """A model that says many words, which `finished_run`'s do not."""
    run = tmp_path_factory.mktemp("taught") / "run"
    learning = {"sft__epochs": "6", "sft__optimizer": "{ learning_rate = 0.02, schedule = 'constant' }"}
    Pipeline(load_config(write_config(run.with_suffix(".toml"), word_directory, **learning)), run, QUIET)("sft")
    assert len({reply for _, replies in played(run / "sft") for reply in replies}) > 10
    return run / "sft"


def played(model: Path) -> list[tuple[str, list[str]]]:
    """What a model says to every secret, by a way of its own."""
    opened = open_model(model, temperature=0.0)
    words, prompter = opened.context.words, opened.context.prompter
    found = play([InitialState(secret) for secret in words.answers], words, prompter, opened.sampler)
    return sorted((game.transcript.secret, [turn.reply for turn in game.transcript.turns]) for game in found)


def ran(run: Path, words: Path, model: Path, **changes: str) -> list[str]:
    """Have a run trained from a model, by default without SFT; the models in its results."""
    changes = {"stages": '["grpo"]', "model__path": f"'{model}'", **changes}
    results = Pipeline(load_config(write_config(run.with_suffix(".toml"), words, **changes)), run, QUIET)()
    assert games(run / "eval" / "base.json") == played(model)
    return [name for name in results if name not in ("seconds", "peak_memory_gib", "memory")]


def games(path: Path) -> list[tuple[str, list[str]]]:
    """What was said to every secret in an evaluation."""
    records = Evaluation.load(path).records
    return sorted((record.secret, [turn.reply for turn in record.turns]) for record in records)


def test_grpo_goes_on_from_any_model(taught, word_directory, tmp_path: Path) -> None:
    run = tmp_path / "run"
    before = load_file(taught / "model.safetensors")
    assert ran(run, word_directory, taught, **{"grpo.reward__preset": "'shaped'"}) == ["base", "grpo"]
    assert not (run / "traces.jsonl").exists()
    assert not (run / "sft").exists()
    change = [weight - before[name] for name, weight in load_file(run / "grpo" / "model.safetensors").items()]
    assert 0 < max(float(part.abs().max()) for part in change) < 0.01
    assert {row["stage"] for row in rows(run / "metrics.jsonl")} == {"grpo"}
    assert Evaluation.load(run / "eval" / "base.json").player == str(taught)
    assert lineage_of(run / "grpo").lessons == lineage_of(taught).lessons
    assert audit(run).clean
    assert set(audit(run).num_secrets) == {"secrets.jsonl", "games.jsonl"}
    assert "GRPO minus the base model" in (run / "report.html").read_text()


@pytest.mark.parametrize("name", ["expert_iteration", "dpo", "distill"])
def test_every_algorithm_can_start_from_any_model(name, taught, word_directory, tmp_path: Path) -> None:
    run = tmp_path / "run"
    changes = {f"{name}__rounds": "1", f"{name}__groups_per_round": "4", "stages": f"['{name}']"}
    assert ran(run, word_directory, taught, **changes) == ["base", name]
    replays = name != "dpo"  # the others replay teacher games
    assert (run / "traces.jsonl").is_file() is replays
    assert audit(run).num_secrets.get("traces.jsonl") == (200 if replays else None)
    assert not (run / "sft").exists()
    assert f"{stage_title(name)} minus the base model" in (run / "report.html").read_text()


def test_the_base_is_evaluated_beside_sft_and_without_adapters(taught, word_directory, tmp_path: Path) -> None:
    ran(tmp_path / "adapters", word_directory, taught, model__lora="{ rank = 2 }")
    assert is_adapter(tmp_path / "adapters" / "grpo")
    run = tmp_path / "beside"
    assert ran(run, word_directory, taught, eval__also='["base"]', stages='["sft", "grpo"]') == ["base", "sft", "grpo"]
    assert games(run / "eval" / "sft.json") != games(run / "eval" / "base.json")
    assert "GRPO minus SFT" in (run / "report.html").read_text()


def test_limited_to_listed_words_grpo_plays_no_other_and_learns_from_what_it_drew(
    taught, word_directory, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    assert ran(run, word_directory, taught, grpo__constrain="'words'") == ["base", "grpo"]
    words = {*load_words(str(word_directory)).guesses}
    guesses = [turn["guess"] for game in rows(run / "games.jsonl") for turn in game["turns"]]
    guesses = {*guesses} - {None}  # a reply may end before it opens its guess
    assert guesses
    assert guesses <= words
    for row in rows(run / "metrics.jsonl"):
        assert row["importance_ratio/max"] == pytest.approx(1.0, abs=1e-3)
