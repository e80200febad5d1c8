"""Laws of combinations that cannot work: every rule refuses, and its refusal names the settings to change."""

import re
from typing import Any

import pytest
from refused import names

from wordle_rl.config.base import FIELDS_ONLY, ConfigError
from wordle_rl.config.files import load_config
from wordle_rl.config.refusals import LAUNCH, MLX, RUN, STAGE, VERL, Case, Launch, check_launch
from wordle_rl.config.run import RunConfig, config_class
from wordle_rl.config.stages import kind_of

MODEL = {"model__path": "somewhere"}
CHAINED = {"stages": ["sft", "grpo", "grpo_2"]}
DISTRIBUTION = {"stages": ["sft", "distill"], "distill__targets": "distribution"}
BELIEF = {"grpo__belief_weight": 0.5, "grpo__reward__keep_order": False}
GREEDY = {"stages": ["sft", "expert_iteration"], "expert_iteration__labels": "secret"}

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"game__hard_mode": True, "traces__teacher__plan": "probes"}, "game.hard_mode"),
    ({"game__hard_mode": True, "traces__teacher__plan": "tree"}, "game.hard_mode"),
    ({"game__dictionary": "lenient", "traces__slip_rate": 0.1}, "traces.slip_rate"),
    ({"game__dictionary": "app", "traces__invented_rate": 0.1}, "traces.invented_rate"),
    ({"stages": ["grpo"]}, "model.path"),
    (MODEL | {"stages": ["grpo"], "traces__file": "games.jsonl"}, "traces.file"),
    (CHAINED | {"grpo_2__validation_file": "a.txt", "grpo_2__validate_every_steps": 1}, "validation_file"),
    ({"eval__engine": "vllm", "eval__also": ["base"]}, "eval.engine"),
    ({"traces__checked": False}, "traces.checked"),
    ({"traces__drop_duplicates": True}, "traces.drop_duplicates"),
    ({"stages": ["sft", "distill"], "traces__teacher__name": "wordle_rl.teachers:own"}, "traces.teacher.name"),
    (DISTRIBUTION | {"game__thinking": "required"}, "distill.targets"),
    (DISTRIBUTION | {"traces__narrate": True, "game__thinking": "optional"}, "distill.targets"),
    ({"stages": ["sft", "distill"], "game__thinking": "required"}, "traces.narrate"),
    (GREEDY, "expert_iteration.labels"),
    (BELIEF | {"game__thinking": "optional"}, "grpo.belief_weight"),
    ({"grpo__starts__max_prefix_guesses": 6}, "grpo.starts.max_prefix_guesses"),
    (CHAINED | {"grpo_2__starts__max_prefix_guesses": 6}, "grpo_2.starts.max_prefix_guesses"),
    ({"grpo__starts__file": "rows.jsonl", "grpo__starts__own_prompt": True}, "grpo.starts.own_prompt"),
    ({"grpo__starts__own_prompt": True, "grpo__guesses": 1}, "grpo.starts.own_prompt"),
    ({"model__micro_batch_size": 3, "grpo__groups_per_step": 2, "grpo__group_size": 4}, "model.micro_batch_size"),
]
"""Settings, and what their refusal names."""


def changed(overrides: dict[str, Any]) -> dict[tuple[str, ...], Any]:
    return {tuple(name.split("__")): value for name, value in overrides.items()}


@pytest.mark.parametrize(("overrides", "setting"), REFUSED)
def test_settings_that_cannot_go_together_are_refused(overrides, setting) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(None, changed(overrides))
    assert names(caught.value, setting), str(caught.value)


ALONE, SHARDED = Launch(), Launch(8, sharded=True)
VLLM = MODEL | {"grpo__engine": "vllm"}
LAUNCHED: list[tuple[dict[str, Any], Launch, str]] = [
    ({}, Launch(2, deepspeed=True), "ddp.yaml"),
    ({"stages": ["sft", "dpo"]}, Launch(2), "dpo"),
    (MODEL | {"stages": ["distill"]}, SHARDED, "distill"),
    ({}, SHARDED, "grpo.engine"),
    (VLLM | {"model__lora__rank": 2}, SHARDED, "adapters"),
    (VLLM | {"grpo__validate_every_steps": 2}, SHARDED, "grpo.validate_every_steps"),
    (VLLM | {"grpo__beta": 0.1}, SHARDED, "grpo.beta"),
    (VLLM | BELIEF | {"game__thinking": "off"}, SHARDED, "grpo.belief_weight"),
    ({"sft__plain_text_fraction": 0.1}, SHARDED, "sft.plain_text_fraction"),
    ({"sft__optimizer__muon_learning_rate": 0.02}, SHARDED, "sft.optimizer.muon_learning_rate"),
]
"""Settings, how the processes were launched, and what the refusal names."""


@pytest.mark.parametrize(("overrides", "launch", "named"), LAUNCHED)
def test_stages_that_cannot_work_as_they_were_launched_are_refused(overrides, launch, named) -> None:
    config = load_config(None, changed(overrides))
    check_launch(config, config.stages, ALONE)
    with pytest.raises(ConfigError, match=re.escape(named)) as caught:
        check_launch(config, config.stages, launch)
    assert "\n" not in str(caught.value)


def test_only_the_stages_ahead_are_held_against_the_launch() -> None:
    config = load_config(None, changed({"stages": ["sft", "dpo"]}))
    check_launch(config, ["sft"], Launch(2))


CANDIDATES = {"grpo__turn_candidates": 2, "grpo__credit": "guess"}
OUTSIDE = {"grpo__outside_rate": 0.1, "grpo__reward__weights": {"quick_regret": -1.0}}
IGNORED: list[tuple[tuple, dict[str, Any], str]] = [
    (MLX, {"model__precision": "bf16"}, "model.precision"),
    (MLX, {"model__attn_implementation": "sdpa"}, "model.attn_implementation"),
    (MLX, MODEL | {"model__compile": True}, "model.compile"),
    (MLX, {"eval__engine": "vllm"}, "eval.engine"),
    (MLX, VLLM, "grpo.engine"),
    (MLX, {"grpo__constrain": "words"}, "grpo.constrain"),
    (VERL, {"game__shape": "state"}, "game.shape"),
    (VERL, CANDIDATES, "grpo.turn_candidates"),
    (VERL, {"grpo__guesses": 1}, "grpo.guesses"),
    (VERL, {"grpo__updates_per_batch": 2}, "grpo.updates_per_batch"),
    (VERL, OUTSIDE, "grpo.outside_rate"),
    (VERL, {"traces__rl_only_fraction": 0.2}, "traces.rl_only_fraction"),
    (VERL, BELIEF | {"game__thinking": "off"}, "grpo.belief_weight"),
    (VERL, {"grpo__constrain": "words"}, "grpo.constrain"),
    (VERL, {"grpo__gradient_noise_every": 1}, "grpo.gradient_noise_every"),
    (VERL, {"grpo__prioritized_fraction": 1.0}, "grpo.prioritized_fraction"),
    (VERL, {"grpo__probe_every_steps": 5}, "grpo.probe_every_steps"),
    (VERL, {"grpo__max_refills": 2}, "grpo.max_refills"),
    (VERL, {"grpo__reward__preset": "shaped_curriculum"}, "grpo.reward"),
    (VERL, {"max_batch_size": 64}, "max_batch_size"),
    (VERL, {"grpo__credit": "wordle_rl.train.advantages:turn_advantages"}, "grpo.credit"),
    (VERL, {"grpo__validate_every_steps": 5}, "grpo.validate_every_steps"),
    (VERL, {"grpo__engine": "vllm"}, "grpo.engine"),
    (VERL, {"backend": "mlx"}, "backend"),
    (VERL, MODEL | {"model__compile": True}, "model.compile"),
    (VERL, {"report_to": ("trackio:somebody/space",)}, "report_to"),
    (VERL, {"grpo__gpu_memory_utilization": 0.5}, "grpo.gpu_memory_utilization"),
    (VERL, {"grpo__optimizer__muon_learning_rate": 0.02}, "grpo.optimizer.muon_learning_rate"),
    (VERL, {"grpo__optimizer__schedule": "linear"}, "grpo.optimizer.schedule"),
    (VERL, MODEL | {"model__chat_template": "lines"}, "model.chat_template"),
    (VERL, MODEL | {"model__load_in_4bit": True, "model__lora__rank": 4}, "model.load_in_4bit"),
    (VERL, MODEL | {"model__lora__rank": 4}, "model.lora"),
]
"""Rules of another library, settings that it would not follow, and what a refusal names."""


@pytest.mark.parametrize(("rules", "overrides", "setting"), IGNORED)
def test_what_another_library_would_not_follow_is_named(rules, overrides, setting) -> None:
    def named(run: RunConfig) -> list[str]:
        return [sentence.partition(":")[0] for applies, sentence in rules if applies(run)]

    assert named(RunConfig()) == []
    assert setting in named(load_config(None, changed(overrides)))


def unchecked(overrides: dict[str, Any]) -> RunConfig:
    values: dict[str, Any] = {}
    for (*sections, name), value in changed(overrides).items():
        section = values
        for each in sections:
            section = section.setdefault(each, {})
        section[name] = value
    return config_class(values.get("stages")).model_validate(values, context=FIELDS_ONLY)


def test_the_tables_above_break_every_rule() -> None:
    def cases(overrides: dict[str, Any], launch: Launch = ALONE) -> list[Case]:
        run = unchecked(overrides)
        return [Case(run, stage, run.settings_of(stage), launch) for stage in run.stages]

    def of_library(rules: object) -> list[RunConfig]:
        return [unchecked(overrides) for theirs, overrides, _ in IGNORED if theirs is rules]

    refused = [unchecked(overrides) for overrides, _ in REFUSED]
    for rules, runs in ((RUN, refused), (MLX, of_library(MLX)), (VERL, of_library(VERL))):
        assert [sentence for applies, sentence in rules if not any(map(applies, runs))] == []
    at_work = [case for overrides, _ in REFUSED for case in cases(overrides)]
    launched = [case for overrides, launch, _ in LAUNCHED for case in cases(overrides, launch)]
    for rules, found in ((STAGE, at_work), (LAUNCH, launched)):
        for kinds, applies, sentence in rules:
            assert any(applies(case) for case in found if kind_of(case.stage) in kinds), sentence
