"""Laws of the checks of settings before a training: each fault is found, and the setting named."""

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

from contexts import context_of
from template_checks import levels

from wordle_rl.config import PRESETS_DIRECTORY, ModelSettings, RunConfig, WordSettings, load_config
from wordle_rl.policy.loading import load_numbers
from wordle_rl.policy.sizes import ModelNumbers
from wordle_rl.preflight.checks import (
    check_engines,
    check_model,
    check_pretrained,
    check_teacher,
    check_teacher_replies,
    check_updates,
)
from wordle_rl.runs.lineage import Lineage, lesson_of, save_lineage
from wordle_rl.words.split import split_secrets


def test_a_budget_is_checked_for_the_guess_and_for_the_game(small_words, codec) -> None:
    settings = {"game": {"style": "compact", "thinking": "off"}, "model": {"max_length": 32}}
    config = RunConfig.model_validate({**settings, "max_completion_tokens": 3})
    guess, game = check_model(config, context_of(config, small_words), codec, load_numbers(config.model))
    assert (guess.level, game.level) == ("problem", "problem")
    assert "max_completion_tokens 3 is too small" in guess.message
    assert "the model takes 32" in game.message


@pytest.mark.parametrize(
    ("lengths", "limit", "level"), [([10, 20], 20, []), ([10, 20, 30, 40], 20, ["warning"]), ([30], 20, ["problem"])]
)
def test_teacher_games_that_would_be_left_out_are_told(lengths: list[int], limit: int, level: list[str]) -> None:
    assert levels(check_teacher(lengths, limit)) == level


@pytest.mark.parametrize(
    ("lengths", "limit", "level"),
    [([8] * 19 + [30], 12, []), ([8, 8, 30, 40], 35, ["warning"]), ([30, 40, 8], 12, ["problem"])],
)
def test_budgets_that_cut_the_teacher_s_replies_are_told(lengths: list[int], limit: int, level: list[str]) -> None:
    assert levels(check_teacher_replies(lengths, limit)) == level


@pytest.mark.parametrize("path", ["tiny", "elsewhere"])
def test_vllm_cannot_evaluate_a_model_that_is_in_no_directory(path: str, monkeypatch) -> None:
    monkeypatch.setattr("wordle_rl.preflight.checks.check_vllm", lambda _: None)
    config = RunConfig.model_validate({"eval": {"engine": "vllm", "also": ["base"]}, "model": {"path": path}})
    assert levels(check_engines(config)) == (["problem"] if path == "tiny" else [])


@pytest.mark.parametrize(
    ("held", "trained", "rate", "warns"),
    [(4, 0, 1e-5, False), (2, 0, 3e-4, False), (2, 4, 1e-5, False), (2, 0, 1e-5, True)],
)
def test_updates_that_16_bits_cannot_hold_are_warned_of(held: int, trained: int, rate: float, warns: bool) -> None:
    optimizers = {"sft": {"optimizer": {"learning_rate": rate}}, "rl": {"optimizer": {"learning_rate": 1e-3}}}
    numbers = replace(load_numbers(ModelSettings()), weight_bytes=held, trainable_bytes=trained)
    found = [*check_updates(RunConfig.model_validate(optimizers), numbers)]
    assert [finding.message.split()[0] for finding in found] == ["sft.optimizer.learning_rate"] * warns


def numbers_of(config: RunConfig, num_parameters: int) -> ModelNumbers:
    trainable = 10_000_000 if config.model.lora.rank else num_parameters
    return ModelNumbers(num_parameters, trainable, 24, 14, 2, 64, 896, 4864, 150_000, 4)


@pytest.mark.parametrize(
    ("size", "recipe"),
    [
        (134_515_008, "smollm2"),
        (494_032_768, "qwen2.5-1.5b-lora"),
        (1_720_574_976, "qwen3-1.7b"),
        (4_022_468_096, "qwen3-4b"),
    ],
)
def test_the_embedded_model_s_settings_are_refused_for_a_pretrained_model(size: int, recipe: str) -> None:
    quickstart = load_config("quickstart", {("model", "path"): "some/model"})
    (found,) = check_pretrained(quickstart, numbers_of(quickstart, size))
    assert found.level == "problem"
    for key in ("game.style", "sft.optimizer.learning_rate", "sft.optimizer.muon_learning_rate", "rl.optimizer."):
        assert key in found.message
    assert recipe in found.message
    assert (PRESETS_DIRECTORY / f"{recipe}.toml").is_file()
    assert not [*check_pretrained(quickstart, numbers_of(quickstart, 5_000_000))], "small enough to start from nothing"


@pytest.mark.parametrize(
    ("size", "rank", "algorithm", "sft", "play", "refused"),
    [
        (135e6, 0, "grpo", 2e-3, 2e-4, []),
        (135e6, 0, "grpo", 2.1e-3, 2e-4, ["sft"]),
        (135e6, 0, "grpo", 1e-3, 3e-4, ["rl"]),
        (135e6, 0, "distill", 1e-3, 1e-3, []),
        (4e9, 0, "grpo", 1e-3, 1e-4, ["sft", "rl"]),
        (4e9, 16, "grpo", 1e-3, 1e-4, []),
    ],
)
def test_rates_are_bounded_by_size_adapters_and_what_is_learnt_from(
    size: float, rank: int, algorithm: str, sft: float, play: float, refused: list[str]
) -> None:
    values = {
        "model": {"path": "some/model", "lora": {"rank": rank}},
        "algorithm": algorithm,
        "sft": {"optimizer": {"learning_rate": sft}},
        "rl": {"optimizer": {"learning_rate": play}},
    }
    config = RunConfig.model_validate(values)
    found = [*check_pretrained(config, numbers_of(config, int(size)))]
    named = [stage for stage in ("sft", "rl") for finding in found if f"{stage}.optimizer" in finding.message]
    assert named == refused


def test_a_model_that_was_trained_on_the_code_is_trained_on_it_further(tmp_path: Path, small_words) -> None:
    config = RunConfig.model_validate({"game": {"style": "compact"}, "model": {"path": str(tmp_path)}})
    numbers = numbers_of(config, 134_515_008)
    assert levels(check_pretrained(config, numbers)) == ["problem"]
    lesson = lesson_of(WordSettings(), split_secrets(small_words))
    save_lineage(tmp_path, Lineage(game=config.game, lessons=(lesson,)))
    assert levels(check_pretrained(config, numbers)) == []
