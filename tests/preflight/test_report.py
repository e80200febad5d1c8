"""Laws of `preflight`: a run is looked at from all sides, a few games are played, and nothing is written."""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from chat_families import family_config, family_tokenizer
from contexts import context_of
from rich.console import Console
from scripted import ScriptedSampler
from training_fixtures import write_config
from transformers import AutoModelForCausalLM

from wordle_rl.config import (
    ConfigError,
    ModelSettings,
    RunConfig,
    load_config,
)
from wordle_rl.data.dataset import Example
from wordle_rl.pipeline import Pipeline
from wordle_rl.preflight.report import Played, check_play, play_groups
from wordle_rl.preflight.teacher_sample import reply_lengths
from wordle_rl.prompt import Prompter, Thinking
from wordle_rl.rollout import InitialState


def test_replies_are_counted_one_by_one() -> None:
    game = Example(token_ids=[1] * 9, loss_mask=[0, 1, 1, 0, 0, 1, 1, 1, 0])
    assert reply_lengths([game, Example([1, 2], [0, 1])]) == [2, 3, 1]


def test_play_that_teaches_nothing_is_told_with_its_mend() -> None:
    good = Played(64, 0.5, 0.9, 0.05, 0.25, 20.0)
    assert check_play(good, 32) == []
    alike = check_play(Played(64, 0.5, 0.9, 0.05, 0.75, 20.0), 32)
    assert [f.message for f in alike] == [
        "75% of the groups teach nothing, since all their games earn the same; raise rl.temperature or rl.group_size"
    ]
    lost = check_play(Played(64, 0.0, 0.1, 0.5, 1.0, 32.0), 32)
    assert [finding.level for finding in lost] == ["warning"] * 3
    assert "cut at 32 tokens" in lost[0].message
    assert "SFT first" in lost[2].message


def test_games_are_played_as_the_chosen_algorithm_would(cli, config: Path, finished_run: Path) -> None:
    settings = {"--max-completion-tokens": 2, "--rl.group-size": 1, "--groups": 3}
    flags = [part for flag in settings.items() for part in flag]
    code, out, _ = cli("preflight", config, "--model.path", finished_run / "sft", "--algorithm", "distill", *flags)
    assert code == 2, "a reply of two tokens holds no guess"
    settings["--max-completion-tokens"] = 8
    flags = [part for flag in settings.items() for part in flag]
    arguments = ("--model.path", finished_run / "sft", "--algorithm", "distill", *flags, "--json")
    code, out, _ = cli("preflight", config, *arguments)
    played = json.loads(out)["played"]
    assert code == 0
    assert (played["num_games"], played["zero_variance_share"]) == (3, 0.0)


def test_a_group_whose_games_all_end_alike_has_no_variance(small_words, solver) -> None:
    config = RunConfig.model_validate({"game": {"thinking": "off"}, "rl": {"group_size": 2}})
    say = Prompter(thinking=Thinking.OFF).reply
    win, lose = [say("crane")], [say("fuzzy")] * 6
    script = {0: win, 1: win, 2: [say("crane")], 3: ["what?", *lose[:5]]}
    starts = [InitialState("crane")] * 2 + [InitialState("crane")] * 2
    played = play_groups(config, context_of(config, small_words), ScriptedSampler(script), starts)
    assert (played.num_games, played.win_rate, played.zero_variance_share) == (4, 0.75, 0.5)
    assert (played.overlong_share, played.format_compliance) == (0.0, pytest.approx(8 / 9))


# --- the command ----------------------------------------------------------------------------------------------------


def published(name: str, directory: Path) -> Path:
    tokenizer = family_tokenizer(name)
    AutoModelForCausalLM.from_config(family_config(name, len(tokenizer))).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


@pytest.fixture
def config(tmp_path: Path, word_directory: Path) -> Path:
    return write_config(tmp_path / "mini.toml", word_directory)


def test_a_trained_model_is_looked_at_from_all_sides(cli, config: Path, finished_run: Path) -> None:
    before = sorted(config.parent.rglob("*"))
    code, out, err = cli("preflight", config, "--model.path", finished_run / "sft", "--groups", 2)
    assert (code, err) == (0, "")
    for words in ("unchanged", "longest game", "8: ", "key/value cache", "⟦<guess>", "<|end|>⟧", "all at once"):
        assert words in out
    code, out, _ = cli("preflight", config, "--model.path", finished_run / "sft", "--groups", 2, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["played"]["num_games"] == 8
    assert found["memory"]["grpo"]["total"] > found["memory"]["grpo"]["counted"] > 0
    assert found["longest_game"] == 111
    assert sorted(config.parent.rglob("*")) == before, "it writes nothing"


@pytest.mark.parametrize("name", ["expert_iteration", "dpo", "distill"])
def test_the_stage_of_another_algorithm_is_counted_too(name: str, cli, config: Path) -> None:
    code, out, err = cli("preflight", config, "--algorithm", name, "--json")
    assert (code, err) == (0, "")
    memory = json.loads(out)["memory"]
    assert list(memory) == ["sft", name, "eval"]
    assert memory[name]["cache"] > memory[name]["cache_of_a_group"] > 0
    assert memory[name]["reference"] == (memory[name]["weights"] if name == "dpo" else 0)


def test_the_embedded_model_is_looked_at_without_games(cli, config: Path) -> None:
    code, out, _ = cli("preflight", config)
    assert code == 0
    assert "note: the embedded model starts untrained" in out
    assert "games played" not in out


def test_every_problem_has_its_line_and_the_exit_code_is_2(cli, config: Path, tmp_path: Path) -> None:
    model = published("deepseek-r1", tmp_path / "published")
    (model / "model.safetensors").unlink()  # nothing below needs weights
    arguments = ("preflight", config, "--model.path", model, "--groups", 0, "--model.max-length", 16)
    code, out, err = cli(*arguments, "--max-completion-tokens", 2, "--grpo.epsilon", 0.1)
    problems = [line for line in out.splitlines() if line.startswith("problem: ")]
    assert code == 2
    assert len(problems) == 4, problems
    for words in ("opens a thought", "model.max_length 16", "max_completion_tokens 2", "grpo.epsilon"):
        assert any(words in line for line in problems), (words, problems)
    assert err.strip() == "error: this run cannot work: 4 problems, listed above"


def test_weights_that_are_missing_are_a_problem_only_to_who_plays(cli, config: Path, tmp_path: Path) -> None:
    model = published("qwen3", tmp_path / "published")
    (model / "model.safetensors").unlink()
    budgets = ("--max-completion-tokens", 64)
    arguments = ("preflight", config, "--model.path", model, *budgets)
    code, out, _ = cli(*arguments, "--groups", 0)
    assert (code, "earlier replies stay as they were spoken" in out) == (0, True)
    code, out, _ = cli(*arguments)
    assert code == 2
    assert "problem: cannot load a model" in out


def test_without_a_tokenizer_memory_is_still_estimated(cli, config: Path, tmp_path: Path) -> None:
    family_config("qwen3", 500).save_pretrained(tmp_path / "numbers")
    code, out, _ = cli("preflight", config, "--model.path", tmp_path / "numbers")
    assert code == 2
    assert "key/value cache" in out
    assert sum(line.startswith("problem: ") for line in out.splitlines()) == 1


def test_a_missing_model_is_one_problem(cli, config: Path, tmp_path: Path) -> None:
    code, out, _ = cli("preflight", config, "--model.path", tmp_path / "nowhere", "--json")
    assert code == 2
    (finding,) = json.loads(out)["findings"]
    assert finding["level"] == "problem"
    assert "no model directory" in finding["message"]


def test_what_the_launched_processes_cannot_do_is_a_problem(cli, config: Path, monkeypatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    code, out, _ = cli("preflight", config, "--algorithm", "dpo", "--json")
    problems = [finding["message"] for finding in json.loads(out)["findings"] if finding["level"] == "problem"]
    assert (code, problems) == (2, ["dpo trains in one process; start one alone, or set algorithm to grpo"])


def test_fewer_than_no_groups_are_refused(cli, config: Path) -> None:
    code, _, err = cli("preflight", config, "--groups", -1)
    assert (code, "groups -1 must not be negative" in err) == (2, True)


def test_a_run_asks_first(config: Path, tmp_path: Path) -> None:
    model = published("deepseek-r1", tmp_path / "published")
    settings = load_config(config).model_copy(update={"model": ModelSettings(path=str(model))})
    with pytest.raises(ConfigError, match="opens a thought in every prompt"):
        Pipeline(settings, tmp_path / "run", Console(quiet=True))()
    assert not (tmp_path / "run").exists()
