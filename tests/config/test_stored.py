"""Laws of stored settings: a version goes with them, and those of version 1 are read under today's names."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from version_1 import DEFAULTS, version_1

from wordle_rl.config import (
    ALGORITHM_NAMES,
    ConfigError,
    RunConfig,
    Setting,
    load_config,
    setting_names,
    stored_config,
    successor,
    upgraded,
)

TODAY = {".".join(setting) for setting in setting_names()}
FREE = {"weights", "then_weights", "template_kwargs"}
"""Settings that are tables of free entries."""


def leaves(values: dict[str, Any]) -> Iterator[Setting]:
    for name, value in values.items():
        if isinstance(value, dict) and name not in FREE:
            yield from ((name, *below) for below in leaves(value))
        else:
            yield (name,)


def stored(tmp_path: Path, values: dict[str, Any]) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(values))
    return path


def test_every_setting_of_version_1_has_its_name_of_today_or_is_said_to_be_gone() -> None:
    old = list(leaves(DEFAULTS))
    assert len(old) == 226
    told = {setting: successor(setting) for setting in old}
    assert {setting for setting in old if not told[setting]} == {tuple(name.split(".")) for name in TODAY} & {*old}
    moved = {setting: text.removeprefix("now ") for setting, text in told.items() if text.startswith("now ")}
    assert {text.partition(",")[0] for text in moved.values()} <= TODAY
    gone = {setting for setting in old if told[setting]} - moved.keys()
    expected = {(name, "reward", "over_steps") for name in ALGORITHM_NAMES} | {("sft", "compile")}
    expected |= {("traces", "teacher", "outside_noise_rate")}
    assert gone == expected | {(name, "optimizer", "max_bad_steps") for name in ("sft", *ALGORITHM_NAMES)}


def test_the_defaults_of_version_1_are_those_of_today(tmp_path: Path) -> None:
    shared = RunConfig().rl.model_copy(update={"group_size": 16})  # which was always written
    assert stored_config(stored(tmp_path, version_1())) == RunConfig(rl=shared)


OLD: dict[str, dict[str, Any]] = {
    "grpo": {
        "max_given": 2, "focus": 1.0, "scout_every_steps": 5, "candidate_shares": [0.3], "validate_every_steps": 5,
        "group_size": 4, "sampling": {"max_completion_tokens": 12, "top_p": 0.9}, "vllm": {"gpu_memory_share": 0.5},
        "reward": {"weights": {"win": 1.0}, "keep_order": False}, "optimizer": {"warmup_share": 0.1},
    },
    "expert_iteration": {"rounds": 2, "replay_share": 0.5, "epochs": 2.0, "reward": {"preset": "shaped"}},
    "dpo": {"judge": "outcome", "batch_size": 8, "reward": {"preset": "shaped"}, "gradient_checkpointing": True},
    "dagger": {"replay_share": 0.0, "sampling": {"temperature": 0.0}, "reward": {"preset": "shaped"}},
}  # fmt: skip
NEW = {
    "grpo": """
        [rl]
        group_size = 4
        starts = { max_prefix_guesses = 2, file = "boards.jsonl", fraction = 0.7 }
        sampling = { top_p = 0.9 }
        reward = { weights = { win = 1.0 }, keep_order = false }
        optimizer = { warmup_fraction = 0.1 }
        [grpo]
        prioritized_fraction = 1.0
        probe_every_steps = 5
        validate_every_steps = 5
        interpolation_alphas = [0.3]
        vllm = { gpu_memory_utilization = 0.5 }
        """,
    "expert_iteration": """
        [rl]
        starts = { file = "boards.jsonl", fraction = 0.7 }
        epochs = 2.0
        [expert_iteration]
        rounds = 2
        replay_fraction = 0.5
        """,
    "dpo": """
        [rl]
        starts = { file = "boards.jsonl", fraction = 0.7 }
        batch_size = 8
        reward = { preset = "shaped" }
        gradient_checkpointing = true
        [dpo]
        judge = "outcome"
        """,
    "dagger": """
        [rl]
        starts = { file = "boards.jsonl", fraction = 0.7 }
        sampling = { temperature = 0.0 }
        [dagger]
        replay_fraction = 0.0
        """,
}
"""Settings of `OLD` in the file of today."""


@pytest.mark.parametrize("algorithm", ALGORITHM_NAMES)
def test_a_run_of_version_1_is_read_as_the_file_of_today_that_says_the_same(algorithm: str, tmp_path: Path) -> None:
    shared = {"starts_file": "boards.jsonl", "starts_share": 0.7, "eval": {"max_completion_tokens": 12}}
    old = version_1(algorithm=algorithm, traces={"rl_only_share": 0.2}, **shared, **{algorithm: OLD[algorithm]})
    head = f"algorithm = '{algorithm}'\nmax_completion_tokens = 12\ntraces = {{ rl_only_fraction = 0.2 }}\n"
    (tmp_path / "today.toml").write_text(head + NEW[algorithm])
    found, today = stored_config(stored(tmp_path, old)), load_config(tmp_path / "today.toml")
    assert found.training == today.training
    assert found.traces == today.traces
    assert [found.sft, found.eval, found.grpo] == [today.sft, today.eval, today.grpo]


def test_what_is_stored_today_has_its_version_and_is_not_changed_by_reading(tmp_path: Path) -> None:
    values = RunConfig(seed=3).stored()
    assert values["config_version"] == 2
    assert upgraded(values) == {name: value for name, value in values.items() if name != "config_version"}
    path = stored(tmp_path, values)
    assert load_config(path) == stored_config(path) == RunConfig(seed=3)


def test_settings_of_version_1_train_nothing_new(tmp_path: Path) -> None:
    path = stored(tmp_path, version_1())
    with pytest.raises(ConfigError, match=r"config\.json was stored by an older wordle-rl; write .* TOML file$"):
        load_config(path)


def test_a_version_that_is_not_known_is_refused(tmp_path: Path) -> None:
    path = stored(tmp_path, RunConfig().stored() | {"config_version": 3})
    for read in (load_config, stored_config):
        with pytest.raises(ConfigError, match=r"config_version 3 is not known here"):
            read(path)


def test_what_is_only_read_need_not_go_together(tmp_path: Path) -> None:
    path = stored(tmp_path, version_1(sft={"epochs": 0.0}, grpo={"steps": 0}))
    assert stored_config(path).trained == ()
    values = stored_config(path).stored()
    with pytest.raises(ConfigError, match="leaves nothing to train"):
        load_config(stored(tmp_path, values))


@pytest.mark.parametrize("damage", ["[]", "{", '{"grpo": 3}', '{"seed": "x"}', '{"later": 1}'])
def test_a_damaged_file_is_named_in_one_line(damage: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(damage)
    with pytest.raises(ConfigError, match=r"config\.json") as caught:
        stored_config(tmp_path / "config.json")
    assert "\n" not in str(caught.value)
