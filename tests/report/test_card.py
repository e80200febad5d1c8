"""Laws of the model card: valid for the hub, true to the run's records, and honest about what was limited."""

import json
import re
import shutil
from dataclasses import replace

import pytest

pytest.importorskip("torch")

import yaml
from huggingface_hub import ModelCard

from wordle_rl.config import ConfigError
from wordle_rl.report.card import card_text, models_of, write_cards
from wordle_rl.report.run_record import read_run
from wordle_rl.runs import read_object


@pytest.fixture
def record(finished_run):
    return read_run(finished_run)


def based_on(record, path: str):
    return replace(record, config={**record.config, "model": {**record.config["model"], "path": path}})


def front_matter(text: str) -> dict[str, object]:
    """The YAML block, read without the library that wrote it."""
    found = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
    assert found is not None
    return yaml.safe_load(found[1])


def test_a_finished_run_has_a_card_for_every_model_it_trained(finished_run) -> None:
    for name in ("sft", "grpo"):
        card = ModelCard.load(finished_run / name / "README.md")
        assert card.data.model_name == f"mini-{name}"
        assert card.data.license == "mit"
        assert card.data.base_model is None
        assert card.data.library_name == "transformers"


def test_the_figures_of_the_card_are_those_of_results_json(finished_run, record) -> None:
    results = read_object(finished_run / "results.json")["grpo"]
    text = card_text(record, "grpo")
    (entry,) = front_matter(text)["model-index"]
    found = {r["dataset"]["split"]: r["metrics"] for r in entry["results"]}
    for part, label in (("all", "all secrets"), ("held_out", "held-out secrets"), ("train", "training secrets")):
        figures = results[part]
        assert {"type": "win_rate", "value": round(figures["win_rate"], 4), "name": "Win rate"} in found[part]
        low, high = (f"{100 * figures[f'win_rate_{end}']:.1f}" for end in ("low", "high"))
        assert f"| {label} | {figures['num_games']} | {100 * figures['win_rate']:.1f} % ({low} to {high}) |" in text


def test_limited_guesses_are_never_shown_as_free_ones(record) -> None:
    figures = record.results["grpo"]["held_out"]
    limited = replace(record, results={"grpo": {"held_out": figures, "held_out_constrained": figures}})
    assert "limited" not in card_text(record, "grpo")
    text = card_text(limited, "grpo")
    assert "| held-out secrets, guesses limited to listed words |" in text
    assert "must not be compared with the other rows" in text
    (entry,) = front_matter(text)["model-index"]
    named = {r["dataset"]["split"]: r["dataset"]["name"] for r in entry["results"]}
    assert "limited to listed words" in named["held_out_constrained"]


def test_another_base_model_is_named_and_its_licence_kept(record, tmp_path) -> None:
    text = card_text(based_on(record, "Qwen/Qwen3-4B"), "grpo")
    head = front_matter(text)
    assert (head["base_model"], head["license"], head["license_name"]) == ("Qwen/Qwen3-4B", "other", "see-base-model")
    assert "see the base model, `Qwen/Qwen3-4B`" in text
    assert "base_model" not in front_matter(card_text(based_on(record, str(tmp_path)), "grpo"))


def test_the_code_on_the_card_loads_the_model(finished_run, monkeypatch, tmp_path) -> None:
    text = (finished_run / "grpo" / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    shutil.copytree(finished_run / "grpo", tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), names)
    assert names["tokenizer"]("crane")["input_ids"]


def test_a_run_writes_over_no_card_and_the_command_does(finished_run, tmp_path, cli) -> None:
    run = tmp_path / "mini"
    shutil.copytree(finished_run, run)
    (run / "sft" / "README.md").write_text("mine")
    (run / "grpo" / "README.md").unlink()
    assert [path.read_text() == "mine" for path in write_cards(run, anew=False)] == [True, False]
    code, out, _ = cli("report", run / "sft", "--cards", "--json")
    assert code == 0
    assert json.loads(out) == {"cards": [str(run / "sft" / "README.md")]}
    assert (run / "sft" / "README.md").read_text() != "mine"


def test_a_model_without_its_run_is_refused_in_one_line(finished_run, tmp_path, cli) -> None:
    shutil.copytree(finished_run / "grpo", tmp_path / "alone")
    with pytest.raises(ConfigError, match="run directory"):
        models_of(tmp_path / "alone")
    code, _, err = cli("report", tmp_path / "nothing", "--cards")
    assert code == 2
    assert len(err.strip().splitlines()) == 1
