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
from wordle_rl.report.html.sections import results_section
from wordle_rl.report.read import kept_weights, read_run
from wordle_rl.runs import append_jsonl, read_object, write_jsonl


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


def test_sampled_play_is_a_row_of_its_own_and_no_figure_of_the_hub(record) -> None:
    figures = record.results["grpo"]["held_out"]
    drawn = replace(record, results={"grpo": {"held_out": figures, "held_out_sampled": figures}})
    assert "T = 1" not in card_text(record, "grpo")
    text = card_text(drawn, "grpo")
    assert "| held-out secrets, T = 1 |" in text
    (entry,) = front_matter(text)["model-index"]
    assert [r["dataset"]["split"] for r in entry["results"]] == ["held_out"]


def test_the_card_says_how_the_model_came_to_be(finished_run, record) -> None:
    manifest = read_object(finished_run / "manifest.json")
    text = card_text(record, "grpo")
    for fact in (
        manifest["fingerprint"], manifest["command"], manifest["hardware"]["processor"], "split seed 0",
        "2 steps, each of 2 groups of 4 games", "those at the end of training",
    ):  # fmt: skip
        assert str(fact) in text
    stored = re.search(r"```json\n(.*?)\n```", text, re.DOTALL)
    assert stored is not None
    assert json.loads(stored[1]) == read_object(finished_run / "config.json")
    assert "Games of the model itself" not in card_text(record, "sft")


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"step": 0, "alpha": 1.0}, "those of the SFT model, since no candidate played better"),
        ({"step": 40, "share": 1.0}, "those of step 40"),
        ({"step": 40, "alpha": 0.25}, "those 25 % of the way from the SFT model to step 40"),
    ],
)
def test_the_card_and_the_page_say_which_weights_were_kept(record, chosen, said) -> None:
    after = replace(record, chosen=chosen)
    assert f"Weights: {said}, chosen by greedy play" in card_text(after, "grpo")
    assert "Weights: those at the end of training" in card_text(after, "sft")
    assert f"The weights of grpo are {said}, chosen" in results_section(after.results, kept_weights(after))


def test_a_list_of_ones_own_is_not_called_english_and_lends_a_word_to_play(record) -> None:
    mine = replace(record, manifest={**record.manifest, "words": "deutsch"}, split_of={"apfel": "train"})
    text = card_text(mine, "grpo")
    assert "language" not in text.split("---")[1]
    assert "--secret apfel" in text
    assert "`wordle-rl solve --save --words DIR`" in text
    english = card_text(replace(record, manifest={**record.manifest, "words": "default"}), "grpo")
    assert "language: en" in english.split("---")[1]
    assert "words import" not in english


def test_a_reward_is_named_only_where_one_is_paid(record) -> None:
    assert "reward: preset `" in card_text(record, "grpo")
    distilled = card_text(record, "distill")
    assert "games; no reward: the solver labels every board" in distilled
    assert "reward: preset" not in distilled


@pytest.mark.parametrize("name", ["expert_iteration", "dpo", "distill"])
def test_games_are_counted_per_process_only_where_several_may_train(name: str, record) -> None:
    settings = {"rounds": 3, "groups_per_round": 2, "group_size": 4}
    text = card_text(replace(record, config={**record.config, name: settings}), name)
    assert "3 rounds, each of 2 groups of 4 games; " in text
    assert "2 steps, each of 2 groups of 4 games per process; " in card_text(record, "grpo")


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
    with pytest.raises(ConfigError, match="lies in no run directory"):
        models_of(tmp_path / "alone")
    code, _, err = cli("report", tmp_path / "nothing", "--cards")
    assert code == 2
    assert len(err.strip().splitlines()) == 1


def test_teacher_games_are_those_of_the_run_under_their_teachers_names(finished_run, tmp_path) -> None:
    run = tmp_path / "mini"
    shutil.copytree(finished_run, run)
    said = "- Teacher games for supervised fine-tuning: "
    assert f"{said}200 by the solver\n" in write_cards(run)[0].read_text()
    rows = [{"secret": "crane", "turns": [], "teacher": name} for name in ("solver", "org/m", "org/m")]
    write_jsonl(run / "traces.jsonl", rows)
    assert f"{said}2 by org/m, 1 by the solver\n" in write_cards(run)[0].read_text()
    append_jsonl(run / "traces.jsonl", {"secret": "crane", "turns": []})
    assert f"{said}2 by org/m, 1 by the solver, 1 by an unknown teacher\n" in write_cards(run)[0].read_text()
    (run / "traces.jsonl").unlink()
    assert f"{said}at most 200 by the solver\n" in write_cards(run)[0].read_text()


def test_games_of_a_file_are_not_called_the_solvers(record) -> None:
    given = {**record.config["traces"], "file": "llm.jsonl", "narrate": True}
    text = card_text(replace(record, config={**record.config, "traces": given}), "sft")
    assert "fine-tuning: at most 200 from a given file\n" in text
    narrated = {**record.config["traces"], "narrate": True}
    text = card_text(replace(record, config={**record.config, "traces": narrated}), "sft", {"solver": 200})
    assert "fine-tuning: 200 by the solver, with its thinking\n" in text


def test_every_call_that_made_the_run_is_on_the_card_once(record) -> None:
    def call(command: str, commit: str, accelerator: str | None) -> dict[str, object]:
        hardware = {"processor": "CPU-7", "cores": 8} | ({"accelerator": accelerator} if accelerator else {})
        return {"command": command, "git_commit": commit, "hardware": hardware, "wordle_rl": "9.1"}

    later = [call("wordle-rl run B", "bbb", "1 x GPU-5"), call("wordle-rl run C", "bbb", "1 x GPU-5")]
    manifest = {**record.manifest, **call("wordle-rl run A --until sft", "aaa", None), "later_calls": later}
    text = card_text(replace(record, manifest=manifest), "grpo")
    assert "- Hardware: 8 cores of CPU-7; 1 x GPU-5, 8 cores of CPU-7\n" in text
    assert "- wordle-rl 9.1, commits aaa, bbb; seed 0\n" in text
    assert "```bash\nwordle-rl run A --until sft\nwordle-rl run B\nwordle-rl run C\n```" in text
