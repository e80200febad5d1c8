"""Laws of the one list of checks: what `preflight` calls a problem `run` refuses; each fault is found and named."""

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from chat_families import levels
from training_fixtures import write_config

from wordle_rl.config.context import GameContext
from wordle_rl.config.files import PRESETS_DIRECTORY, load_config
from wordle_rl.config.model import ModelSettings, WordSettings
from wordle_rl.config.run import RunConfig
from wordle_rl.policy.loading import load_numbers
from wordle_rl.policy.sizes import ModelNumbers
from wordle_rl.preflight.checks import (
    check_pretrained,
    check_probes,
    check_sparse_rewards,
    check_teacher,
    check_teacher_replies,
    check_updates,
)
from wordle_rl.runs.lineage import Lineage, lesson_of, save_lineage
from wordle_rl.words.split import split_secrets

REFUSED = {
    "a tracker that is not installed": (["--report-to", "wandb"], "wandb"),
    "an engine that is not installed": (["--grpo.engine", "vllm"], "vllm"),
    "a model that is not there": (["--model.path", "./nowhere"], "nowhere"),
    "a budget without room for a guess": (["--max-completion-tokens", "2"], "max_completion_tokens 2"),
    "games longer than the model": (["--model.max-length", "40"], "takes 40"),
    "an opener that is not listed": (["--traces.teacher.opener", "zzzzz"], "opener 'zzzzz'"),
    "boards that are not there": (["--grpo.starts.file", "nothing.jsonl"], "nothing.jsonl"),
    "strict words in the prompt": (["--words.strict-fraction", "0.1", "--game.system-prompt", "STRICT"], "STRICT"),
    "strict words in a style": (
        ["--words.source", "default", "--words.strict-fraction", "0.04", "--game.style", "notebook"],
        "'avoid'",
    ),
}


@pytest.fixture
def config(tmp_path, word_directory) -> Path:
    return write_config(tmp_path / "mini.toml", word_directory)


@pytest.fixture
def bare(monkeypatch) -> None:
    """An installation without the packages that some settings need."""
    for tracker in ("wandb", "trackio"):
        monkeypatch.setitem(sys.modules, tracker, None)
    find = importlib.util.find_spec
    for module in ("wordle_rl.policy.loading", "wordle_rl.policy.vllm"):
        monkeypatch.setattr(f"{module}.find_spec", lambda name: None if name.startswith("vllm") else find(name))


@pytest.mark.parametrize("case", REFUSED)
def test_preflight_and_run_agree_on_every_refusal(case, cli, config, bare, tmp_path) -> None:
    options, named = REFUSED[case]
    if named == "STRICT":
        context = GameContext.of(load_config(config, {("words", "strict_fraction"): 0.1}))
        named = context.split.strict[0]
        options = [*options[:-1], named]
    code, out, _ = cli("preflight", config, *options, "--groups", 0, "--json")
    problems = [found["message"] for found in json.loads(out)["findings"] if found["level"] == "problem"]
    assert code == 2
    assert any(named in problem for problem in problems), problems
    code, _, err = cli("run", config, *options, "--out", tmp_path / "run")
    assert (code, err.strip()) == (2, f"error: {'; '.join(problems)}")
    assert not (tmp_path / "run").exists(), "it is refused before anything is written"


# --- one by one -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("check", "lengths", "limit", "level"),
    [
        (check_teacher, [10, 20], 20, []),
        (check_teacher, [10, 20, 30, 40], 20, ["warning"]),
        (check_teacher, [30], 20, ["problem"]),
        (check_teacher_replies, [8] * 19 + [30], 12, []),
        (check_teacher_replies, [8, 8, 30, 40], 35, ["warning"]),
        (check_teacher_replies, [30, 40, 8], 12, ["problem"]),
    ],
)
def test_teacher_games_and_replies_that_are_too_long_are_told(check, lengths, limit, level) -> None:
    assert levels(check(lengths, limit)) == level


@pytest.mark.parametrize(
    ("held", "trained", "rate", "warns"),
    [(4, 0, 1e-5, False), (2, 0, 3e-4, False), (2, 4, 1e-5, False), (2, 0, 1e-5, True)],
)
def test_updates_that_16_bits_cannot_hold_are_warned_of(held, trained, rate, warns) -> None:
    optimizers = {"sft": {"optimizer": {"learning_rate": rate}}, "grpo": {"optimizer": {"learning_rate": 1e-3}}}
    numbers = replace(load_numbers(ModelSettings()), weight_bytes=held, trainable_bytes=trained)
    found = [*check_updates(RunConfig.model_validate(optimizers), numbers)]
    assert [finding.message.split()[0] for finding in found] == ["sft.optimizer.learning_rate"] * warns


def numbers_of(config: RunConfig, num_parameters: int) -> ModelNumbers:
    trainable = 10_000_000 if config.model.lora.rank else num_parameters
    return ModelNumbers(num_parameters, trainable, 24, 14, 2, 64, 896, 4864, 150_000, 4)


@pytest.mark.parametrize(
    ("size", "recipe"),
    [
        (134_515_008, "smollm2"), (494_032_768, "qwen2.5-1.5b-lora"), (1_720_574_976, "qwen3-1.7b"),
        (4_022_468_096, "qwen3-4b"),
    ],
)  # fmt: skip
def test_the_embedded_model_s_settings_are_refused_for_a_pretrained_model(size, recipe) -> None:
    quickstart = load_config("quickstart", {("model", "path"): "some/model"})
    (found,) = check_pretrained(quickstart, numbers_of(quickstart, size))
    assert found.level == "problem"
    keys = (
        "game.style",
        "sft.optimizer.learning_rate",
        "sft.optimizer.muon_learning_rate",
        "expert_iteration.optimizer.",
    )
    assert all(named in found.message for named in (*keys, recipe))
    assert (PRESETS_DIRECTORY / f"{recipe}.toml").is_file()
    assert not [*check_pretrained(quickstart, numbers_of(quickstart, 5_000_000))], "small enough to start from nothing"


@pytest.mark.parametrize(
    ("size", "rank", "stage", "sft", "play", "refused"),
    [
        (135e6, 0, "grpo", 2e-3, 2e-4, []),
        (135e6, 0, "grpo", 2.1e-3, 2e-4, ["sft"]),
        (135e6, 0, "grpo", 1e-3, 3e-4, ["grpo"]),
        (135e6, 0, "distill", 1e-3, 1e-3, []),
        (4e9, 0, "grpo", 1e-3, 1e-4, ["sft", "grpo"]),
        (4e9, 16, "grpo", 1e-3, 1e-4, []),
    ],
)
def test_rates_are_bounded_by_size_adapters_and_what_is_learnt_from(size, rank, stage, sft, play, refused) -> None:
    rates = {name: {"optimizer": {"learning_rate": rate}} for name, rate in (("sft", sft), (stage, play))}
    model = {"path": "some/model", "lora": {"rank": rank}}
    config = RunConfig.model_validate({"model": model, "stages": ["sft", stage], **rates})
    found = [*check_pretrained(config, numbers_of(config, int(size)))]
    assert [name for name in rates for finding in found if f"{name}.optimizer" in finding.message] == refused


def test_a_model_that_was_trained_on_the_code_is_trained_on_it_further(tmp_path, small_words) -> None:
    config = RunConfig.model_validate({"game": {"style": "compact"}, "model": {"path": str(tmp_path)}})
    numbers = numbers_of(config, 134_515_008)
    assert levels(check_pretrained(config, numbers)) == ["problem"]
    lesson = lesson_of(WordSettings(), split_secrets(small_words))
    save_lineage(tmp_path, Lineage(game=config.game, lessons=(lesson,)))
    assert levels(check_pretrained(config, numbers)) == []


@pytest.mark.parametrize(
    ("reward", "belief", "rate", "temperature", "warns"),
    [
        ({"win": 1.0}, 0.0, 2e-3, 0.5, True),
        ({"win": 1.0, "speed": 0.5, "consistency": 0.0}, 0.0, 2e-3, 0.5, True),
        ({"win": 1.0}, 0.0, 5e-4, 0.5, False),
        ({"win": 1.0}, 0.0, 2e-3, 1.0, False),
        ({"win": 1.0, "consistency": 1.0}, 0.0, 2e-3, 0.5, False),
        ({"win": 1.0}, 0.3, 2e-3, 0.5, False),
    ],
)
def test_wins_alone_at_the_rates_of_sft_are_warned_of(reward, belief, rate, temperature, warns) -> None:
    grpo = {
        "temperature": temperature,
        "reward": {"weights": reward, "keep_order": False},
        "belief_weight": belief,
        "optimizer": {"learning_rate": rate},
    }
    values = {"game": {"thinking": "off"}, "sft": {"optimizer": {"learning_rate": 3e-3}}, "grpo": grpo}
    chained = RunConfig.model_validate({**values, "stages": ["sft", "grpo"]})
    assert levels(check_sparse_rewards(chained)) == (["warning"] if warns else [])
    assert levels(check_sparse_rewards(RunConfig.model_validate({**values, "stages": ["sft"]}))) == []


@pytest.mark.parametrize(
    ("labels", "teacher", "warns"),
    [
        ("mistakes", {"plan": "probes"}, True),
        ("mistakes", {"plan": "tree", "noise_rate": 0.05}, True),
        ("mistakes", {"plan": "probes", "noise_rate": 1.0}, False),
        ("mistakes", {"plan": "classes"}, False),
        ("refused", {"plan": "probes"}, False),
    ],
)
def test_play_that_would_unlearn_the_teachers_probes_is_warned_of(labels, teacher, warns) -> None:
    values = {"game": {"thinking": "off"}, "traces": {"teacher": teacher}, "expert_iteration": {"labels": labels}}
    chained = RunConfig.model_validate({**values, "stages": ["sft", "expert_iteration"]})
    found = [*check_probes(chained)]
    assert levels(found) == (["warning"] if warns else [])
    assert all("expert_iteration.labels to refused" in finding.message for finding in found)
    assert levels(check_probes(RunConfig.model_validate({**values, "stages": ["sft"]}))) == []
