"""Laws of the checks of settings before a training: each fault is found and named with its mend."""

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

from contexts import context_of
from template_checks import levels

from wordle_rl.config import (
    ConfigError,
    EvalSettings,
    ModelSettings,
    RunConfig,
    WordSettings,
    load_config,
)
from wordle_rl.policy.loading import load_numbers
from wordle_rl.policy.numbers import ModelNumbers
from wordle_rl.preflight import Finding, refuse
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

CONFIGS = Path(__file__).parents[2] / "src" / "wordle_rl" / "config" / "presets"


def test_a_budget_is_checked_for_the_guess_and_for_the_game(small_words, codec) -> None:
    config = RunConfig.model_validate(
        {
            "game": {"style": "compact", "thinking": "off"},
            "model": {"max_length": 32},
            "max_completion_tokens": 3,
        }
    )
    findings = check_model(config, context_of(config, small_words), codec, load_numbers(config.model))
    assert levels(findings) == ["problem"] * 2
    with pytest.raises(ConfigError, match=r"max_completion_tokens 3 is too small.*; a game .* the model takes 32"):
        refuse(findings)
    refuse([Finding("warning", "wasteful"), Finding("note", "by the way")])


def test_teacher_games_that_would_be_left_out_are_told() -> None:
    assert check_teacher([10, 20], 20) == []
    (some,) = check_teacher([10, 20, 30, 40], 20)
    assert (some.level, some.message) == (
        "warning",
        "model.max_length 20 leaves out 50% of the teacher's games; raise it to 40",
    )
    assert levels(check_teacher([30, 40], 20)) == ["problem"]


def test_budgets_that_cut_the_teacher_s_replies_are_told() -> None:
    lengths = [8] * 19 + [30]
    assert check_teacher_replies(lengths, 12) == []
    longer = [8, 8, 30, 40]
    (some,) = check_teacher_replies(longer, 35)
    assert some.level == "warning"
    assert all(part in some.message for part in ("25%", "max_completion_tokens 35", "at most 40"))
    assert levels(check_teacher_replies([30, 40, 8], 12)) == ["problem"]


def test_what_vllm_cannot_evaluate_is_a_problem_before_training() -> None:
    def told(config: RunConfig) -> str:
        return " ".join(finding.message for finding in check_engines(config))

    plays = {"eval": EvalSettings(engine="vllm", also=("base",))}
    assert "eval.also" in told(RunConfig(**plays))
    base = RunConfig(**plays, model=ModelSettings(path="elsewhere"))
    assert "eval.also" not in told(base)


def test_updates_that_16_bits_cannot_hold_are_warned_of() -> None:
    whole = load_numbers(ModelSettings())

    def told(held: int, trained: int, rate: float) -> list[str]:
        optimizers = {"sft": {"optimizer": {"learning_rate": rate}}, "rl": {"optimizer": {"learning_rate": 1e-3}}}
        numbers = replace(whole, weight_bytes=held, trainable_bytes=trained)
        return [finding.message for finding in check_updates(RunConfig.model_validate(optimizers), numbers)]

    assert told(4, 0, 1e-5) == told(2, 0, 3e-4) == told(2, 4, 1e-5) == [], "whole, quick, adapters"
    [message] = told(2, 0, 1e-5)
    assert message.startswith("sft.optimizer.learning_rate 1e-05 ")


SIZES = {
    "smollm2": 134_515_008,
    "Qwen/Qwen2.5-0.5B-Instruct": 494_032_768,
    "Qwen/Qwen2.5-1.5B-Instruct": 1_543_714_304,
    "Qwen/Qwen2.5-3B-Instruct": 3_085_938_688,
    "Qwen/Qwen3-1.7B": 1_720_574_976,
    "Qwen/Qwen3-4B": 4_022_468_096,
    "tiny": 800_000,
}


def numbers_of(config: RunConfig, num_parameters: int) -> ModelNumbers:
    trainable = 10_000_000 if config.model.lora.rank else num_parameters
    return ModelNumbers(num_parameters, trainable, 24, 14, 2, 64, 896, 4864, 150_000, 4)


@pytest.mark.parametrize(
    ("name", "recipe"),
    [
        ("smollm2", "smollm2"),
        ("Qwen/Qwen2.5-0.5B-Instruct", "qwen2.5-1.5b-lora"),
        ("Qwen/Qwen3-1.7B", "qwen3-1.7b"),
        ("Qwen/Qwen3-4B", "qwen3-4b"),
    ],
)
def test_the_embedded_model_s_settings_are_refused_for_a_pretrained_model(name: str, recipe: str) -> None:
    quickstart = load_config(CONFIGS / "quickstart.toml", {("model", "path"): name})
    (found,) = check_pretrained(quickstart, numbers_of(quickstart, SIZES[name]))
    assert found.level == "problem"
    for key in ("game.style", "sft.optimizer.learning_rate", "sft.optimizer.muon_learning_rate", "rl.optimizer."):
        assert key in found.message
    assert recipe in found.message
    assert (CONFIGS / f"{recipe}.toml").is_file()
    assert check_pretrained(quickstart, numbers_of(quickstart, 5_000_000)) == [], "small enough to start from nothing"


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
    found = check_pretrained(config, numbers_of(config, int(size)))
    named = [stage for stage in ("sft", "rl") for finding in found if f"{stage}.optimizer" in finding.message]
    assert named == refused


def test_a_model_that_was_trained_on_the_code_is_trained_on_it_further(tmp_path: Path, small_words) -> None:
    config = RunConfig.model_validate({"game": {"style": "compact"}, "model": {"path": str(tmp_path)}})
    numbers = numbers_of(config, SIZES["smollm2"])
    assert levels(check_pretrained(config, numbers)) == ["problem"]
    lesson = lesson_of(WordSettings(), split_secrets(small_words))
    save_lineage(tmp_path, Lineage(game=config.game, lessons=(lesson,)))
    assert check_pretrained(config, numbers) == []
