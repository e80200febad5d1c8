"""Laws of the shipped files: every config trains a small model of its architecture, every launch file is understood."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import launch_command_parser
from lora_training import FAMILIES, SIZE
from rich.console import Console
from training_fixtures import rows

from wordle_rl.config.files import PRESETS_DIRECTORY, load_config, load_tiny
from wordle_rl.config.run import RunConfig, Setting
from wordle_rl.config.stages import is_stage
from wordle_rl.pipeline import Pipeline
from wordle_rl.policy.loading import save_model

RECIPES = sorted(PRESETS_DIRECTORY.rglob("*.toml"))
LAUNCHES = sorted((Path(__file__).parents[2] / "scripts" / "launch").glob("*.yaml"))

QUICK = {"quickstart", "qwen2.5-1.5b-lora"}
"""Configs of a whole model and of an adapter, which train in the quick tests."""

SMALL: dict[str, dict[str, Any]] = {
    "model": {"max_length": 8192, "hidden_size": 32, "num_layers": 1, "micro_batch_size": 3},
    "traces": {"num_games": 12},
    "sft": {"batch_size": 6, "epochs": 1},
    "grpo": {"steps": 1, "groups_per_step": 1, "group_size": 2},
    "expert_iteration": {"rounds": 1, "groups_per_round": 2, "group_size": 2},
    "eval": {"max_games": 1},
}
"""What is made smaller; all else is as the file says."""


def small(path: Path, word_directory: Path, model: str) -> RunConfig:
    stages = load_config(path).stages
    options: dict[Setting, Any] = {
        (section, name): value
        for section, changes in SMALL.items()
        for name, value in changes.items()
        if section in stages or not is_stage(section)
    }
    for stage, _ in load_config(path).stages_of():
        options[stage, "starts", "max_prefix_guesses"] = 0
    options |= {
        ("model", "path"): model,
        ("words", "source"): str(word_directory),
        ("max_completion_tokens",): 16,
        ("traces", "narrate"): False,  # no thought fits such a reply
        ("traces", "teacher", "opener"): None,  # the small list need not hold it
    }
    return load_config(path, options)


def model_like(name: str, codec, directory: Path) -> str:
    """A small random model of the architecture that a hub name stands for."""
    if name == "tiny":
        return name
    family = "qwen3" if "Qwen3" in name else "qwen2"
    config_class, model_class = FAMILIES[family]
    size = {k: v for k, v in SIZE.items() if family == "qwen3" or k != "head_dim"}
    size |= {"num_hidden_layers": 1, "max_position_embeddings": 8192}
    special = {"pad_token_id": codec.tokenizer.pad_token_id, "eos_token_id": codec.tokenizer.eos_token_id}
    model = model_class(config_class(vocab_size=len(codec.tokenizer), bos_token_id=None, **size, **special))
    save_model(model, codec, directory)
    return str(directory)


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=[] if path.stem in QUICK else [pytest.mark.slow]) for path in RECIPES],
)
def test_every_shipped_config_trains(path: Path, codec, word_directory, tmp_path) -> None:
    shipped = load_config(path)
    config = small(path, word_directory, model_like(shipped.model.path, codec, tmp_path / "model"))
    Pipeline(config, tmp_path / "run", Console(quiet=True))()
    found = rows(tmp_path / "run" / "metrics.jsonl")
    stages = {*shipped.stages}
    for stage, own in shipped.stages_of("grpo"):
        stages |= {f"{stage}/validation"} if own.validate_every_steps else set()
        stages |= {f"{stage}/blend"} if min(own.interpolation_alphas) < 1 else set()
    assert {row["stage"] for row in found} == stages
    assert not [row for row in found if "skipped_steps" in row]
    weights = "adapter_model.safetensors" if shipped.model.lora.rank else "model.safetensors"
    for stage in shipped.stages:
        assert (tmp_path / "run" / stage / weights).is_file()
        assert (tmp_path / "run" / "eval" / f"{stage}.json").is_file()
    assert (tmp_path / "run" / "sft" / "epochs" / "epoch-1").is_dir() == shipped.sft.save_each_epoch


@pytest.mark.parametrize("path", LAUNCHES, ids=lambda path: path.stem)
def test_every_launch_file_is_understood_by_accelerate(path: Path) -> None:
    assert load_config_from_file(str(path)).num_processes == 2
    options = {option.dest for option in launch_command_parser()._actions}
    assert set(yaml.safe_load(path.read_text()).get("fsdp_config", {})) <= options


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_tiny_recipe_keeps_its_stages_and_rewards_and_loses_its_size(path: Path) -> None:
    asked, tiny = load_config(path), load_tiny(path, {("eval", "max_games"): 3})
    assert (tiny.stages, tiny.words, tiny.model.lora) == (asked.stages, asked.words, asked.model.lora)
    assert [own.reward for _, own in tiny.stages_of("grpo")] == [own.reward for _, own in asked.stages_of("grpo")]
    assert [own.steps for _, own in tiny.stages_of("grpo")] == [2] * len(asked.stages_of("grpo"))
    assert (tiny.model.path, tiny.traces.num_games) == ("bundled", 64)
    assert tiny.eval.max_games == 3, "what is typed counts more"


def test_the_small_model_of_a_tiny_run_rehearses_no_text_since_it_has_read_none(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(
        'stages = ["sft", "distill"]\n[sft]\nplain_text_fraction = 0.1\n[distill]\nplain_text_fraction = 0.1\n'
    )
    assert load_config(path).settings_of("distill").plain_text_fraction == 0.1
    assert [load_tiny(path, {}).settings_of(stage).plain_text_fraction for stage in ("sft", "distill")] == [0.0, 0.0]


def test_a_tiny_run_goes_through_every_stage_and_says_what_it_is_worth(
    cli, word_directory, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    opener = (word_directory / "answers.txt").read_text().split()[0]
    words = ("--words.source", word_directory, "--traces.teacher.opener", opener)
    code, _, err = cli("run", "qwen2.5-1.5b-lora", "--tiny", *words, "--eval.max-games", 1)
    assert code == 0, err
    run = tmp_path / "runs" / "qwen2.5-1.5b-lora-tiny"
    assert (run / "grpo" / "adapter_config.json").is_file()
    assert (run / "report.html").is_file()
    assert err.count("the figures mean nothing") == 2
    assert cli("run", "quickstart", "--tiny", "--push-to", "a/b")[0] == 2


@pytest.mark.parametrize(
    "text",
    [
        '[game]\nshape = "spoken"',
        '[grpo]\nengine = "http://localhost:8000"\nbatches_ahead = 1\nserver_timeout_s = 5.0',
        '[grpo]\nturn_candidates = 8\ngroup_size = 8\ncredit = "guess"',
        '[grpo]\nturn_candidates = 3\ngroup_size = 6\ncredit = "guess"',
    ],
)
def test_what_belongs_to_a_replaced_setting_goes_with_it(text: str, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text)
    load_config(path)
    tiny = load_tiny(path, {})
    assert (tiny.game.thinking, tiny.grpo.engine) == ("off", "transformers")
    assert tiny.grpo.group_size % tiny.grpo.turn_candidates == 0
