"""Laws of `preflight`: a run is looked at from all sides, a few games are played, and nothing is written."""

import json
import time
from pathlib import Path

import pytest
from scripted import ScriptedSampler, opened
from training_fixtures import context_of, write_config
from transformers import AutoModelForCausalLM, FalconMambaConfig, Mamba2Config, MambaConfig

from wordle_rl.boards import InitialState
from wordle_rl.config.run import RunConfig
from wordle_rl.evaluate.asked import Asked
from wordle_rl.preflight.report import Played, check_play, play_groups, time_of_play
from wordle_rl.prompt import Prompter, Thinking


@pytest.mark.parametrize(
    ("played", "named"),
    [
        (Played(64, 0.5, 0.9, 0.05, 0.25, 20.0), []),
        (Played(64, 0.5, 0.9, 0.05, 0.75, 20.0), ["grpo.temperature or grpo.group_size"]),
        (Played(64, 0.0, 0.1, 0.5, 1.0, 32.0), ["max_completion_tokens", "SFT first", "SFT first"]),
    ],
)
def test_play_that_teaches_nothing_is_told_with_its_mend(played, named) -> None:
    found = [*check_play(played, 32, "grpo")]
    assert [finding.level for finding in found] == ["warning"] * len(named)
    assert all(name in finding.message for name, finding in zip(named, found, strict=True))


def test_the_time_of_play_is_forecast_from_a_few_games() -> None:
    grpo = {"groups_per_step": 8, "group_size": 16, "steps": 60}
    config = RunConfig.model_validate({"stages": ["sft", "grpo"], "grpo": grpo})
    (found,) = time_of_play(config, Played(64, 0.5, 0.9, 0.05, 0.25, 20.0, seconds=10.0))
    assert "128 games a step: by these 64 about 20 s, and 20 min in all" in found.message


def test_games_are_played_as_the_chosen_algorithm_would(cli, config, finished_run) -> None:
    single = ("--stages", "distill", "--distill.group-size", 1, "--groups", 3, "--max-completion-tokens", 8)
    code, out, _ = cli("preflight", config, "--model.path", finished_run / "sft", *single, "--json")
    played = json.loads(out)["played"]
    assert (code, played["num_games"], played["constant_group_rate"]) == (0, 3, 0.0)


def test_a_group_whose_games_all_end_alike_has_no_variance(small_words, solver) -> None:
    config = RunConfig.model_validate({"game": {"thinking": "off"}, "grpo": {"group_size": 2}})
    say = Prompter(thinking=Thinking.OFF).reply
    win, lose = [say("crane")], [say("fuzzy")] * 6
    script = {0: win, 1: win, 2: win, 3: ["what?", *lose[:5]]}
    asked = Asked(context_of(config, small_words), [InitialState("crane")] * 4)
    played = play_groups(config, asked, opened(ScriptedSampler(script)))
    assert (played.num_games, played.win_rate, played.constant_group_rate) == (4, 0.75, 0.5)
    assert (played.cut_off_rate, played.format_compliance) == (0.0, pytest.approx(8 / 9))


# --- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def config(tmp_path, word_directory) -> Path:
    return write_config(tmp_path / "mini.toml", word_directory)


def test_a_trained_model_is_looked_at_from_all_sides(cli, config, finished_run) -> None:
    before = sorted(config.parent.rglob("*"))
    command = ("preflight", config, "--model.path", finished_run / "sft", "--groups", 2)
    code, out, err = cli(*command)
    assert (code, err) == (0, "")
    assert "⟦<guess>" in out
    code, out, _ = cli(*command, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["played"]["num_games"] == 8
    assert found["played"]["seconds"] > 0
    assert found["memory"]["grpo"]["total"] > found["memory"]["grpo"]["counted"] > 0
    assert found["longest_game"] == 111
    assert sorted(config.parent.rglob("*")) == before, "it writes nothing"


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ('stages = ["sft", "grpo"]\n[grpo]\nsteps = 1e30', "grpo.steps"),
        ("[model]\nmax_length = 1000000000000", ""),
        ("max_completion_tokens = 1000000000000", ""),
        ("[model]\nnum_layers = 1000000", "model.num_layers"),
        (f'[game]\nsystem_prompt = "{5_000_000 * "a"}"', "game.system_prompt"),
        ("".join(f"unknown_{number} = 1\n" for number in range(200_000)), "unknown_0"),
    ],
    ids=["steps", "length", "tokens", "layers", "prompt", "keys"],
)
def test_absurd_settings_are_answered_in_seconds(text: str, setting: str, cli, tmp_path: Path) -> None:
    (tmp_path / "absurd.toml").write_text(text)
    started = time.process_time()
    code, out, err = cli("preflight", tmp_path / "absurd.toml", "--groups", 0)
    assert time.process_time() - started < 5
    assert code == 2
    assert setting in err
    assert len(out + err) < 10_000


@pytest.mark.parametrize("make", [MambaConfig, FalconMambaConfig, Mamba2Config], ids=lambda make: make.model_type)
def test_a_model_of_linear_attention_alone_is_looked_at(make, tokenizer, config, cli, tmp_path: Path) -> None:
    sizes = {"vocab_size": len(tokenizer), "hidden_size": 32, "num_hidden_layers": 1, "state_size": 8}
    heads = {"num_heads": 4, "head_dim": 16, "n_groups": 1} if make is Mamba2Config else {}
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id, "bos_token_id": None}
    AutoModelForCausalLM.from_config(make(**sizes, **heads, **ends)).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    code, out, err = cli("preflight", config, "--model.path", tmp_path / "model", "--groups", 1, "--json")
    assert code == 0, err
    assert json.loads(out)["played"]["num_games"] > 0


def test_what_a_model_plays_before_sft_is_no_warning(cli, config, finished_run) -> None:
    command = ("preflight", config, "--model.path", finished_run / "sft", "--groups", 2, "--max-completion-tokens", 12)
    levels = {}
    for stages in ("grpo", "grpo,sft", "sft,grpo"):
        found = json.loads(cli(*command, "--stages", stages, "--json")[1])["findings"]
        levels[stages] = [each["message"] for each in found if "train SFT first" in each["message"]]
    assert levels["grpo"] == levels["grpo,sft"] != []
    assert levels["sft,grpo"] == []
