"""Laws of the one [rl]: what a section of an algorithm says of it counts for that algorithm, and options above all."""

from pathlib import Path

import pytest
from refused import names

from wordle_rl.config import (
    ALGORITHM_NAMES,
    ConfigError,
    RunConfig,
    load_config,
)

SEVERAL = """
[rl]
group_size = 6
temperature = 0.7
optimizer = { max_grad_norm = 0.9 }
[grpo]
group_size = 8
[grpo.reward]
weights = { quick_regret = -6.0 }
[distill]
temperature = 0.5
optimizer = { learning_rate = 5e-4 }
[dpo]
batch_size = 2
"""


def load(tmp_path: Path, text: str, **options: object) -> RunConfig:
    path = tmp_path / "run.toml"
    path.write_text(text)
    return load_config(path, {tuple(name.split("__")): value for name, value in options.items()})


def test_the_section_of_an_algorithm_counts_for_it_alone(tmp_path: Path) -> None:
    found = {name: load(tmp_path, SEVERAL, algorithm=name).training for name in ALGORITHM_NAMES}
    assert {name: each.group_size for name, each in found.items()} == dict.fromkeys(found, 6) | {"grpo": 8}
    assert [each.sampling.temperature for each in found.values()] == [0.7, 0.7, 0.7, 0.5]
    assert [each.optimizer.max_grad_norm for each in found.values()] == [0.9] * 4, "the rest of a section stays"
    assert [each.optimizer.learning_rate for each in found.values()] == [3e-5, 3e-5, 3e-5, 5e-4]
    assert found["grpo"].reward.weights == {"quick_regret": -6.0}
    assert found["dpo"].batch_size == 2


def test_an_option_counts_more_than_both_sections(tmp_path: Path) -> None:
    found = load(tmp_path, SEVERAL, rl__group_size=4, rl__temperature=0.9)
    assert (found.training.group_size, found.training.sampling.temperature) == (4, 0.9)
    assert found.training.optimizer.max_grad_norm == 0.9


def test_one_setting_of_a_section_leaves_the_defaults_of_the_others(tmp_path: Path) -> None:
    ours = load(tmp_path, "[grpo.optimizer]\nwarmup = 5").training.optimizer
    assert (ours.learning_rate, ours.schedule, ours.warmup) == (3e-5, "constant", 5)


def test_faults_are_named_as_they_are_written_whether_the_algorithm_is_chosen_or_not(tmp_path: Path) -> None:
    for name in ALGORITHM_NAMES:
        for text, setting in (
            (f"[{name}.optimizer]\nlearning_rate = 0", f"{name}.optimizer.learning_rate"),
            (f"[{name}]\ngroup_sise = 2", f"{name}.group_sise"),
        ):
            with pytest.raises(ConfigError, match=r"run\.toml: ") as caught:
                load(tmp_path, text)
            assert caught.value.setting == setting


def test_a_setting_that_an_algorithm_does_not_follow_is_refused_in_its_section_and_in_rl(tmp_path: Path) -> None:
    for algorithm in ("grpo", "distill"):
        with pytest.raises(ConfigError) as caught:
            load(tmp_path, "[distill.reward]\npreset = 'solver'", algorithm=algorithm)
        assert caught.value.setting == "distill.reward"
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, "[rl.reward]\npreset = 'solver'", algorithm="distill")
    assert names(caught.value, "rl.reward")
    outcome = load(tmp_path, "[dpo]\njudge = 'outcome'\nreward = { preset = 'solver' }", algorithm="dpo")
    assert outcome.training.reward.preset == "solver"
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, "[dpo]\njudge = 'outcome'\nreward = { preset = 'solver' }", algorithm="dpo", dpo__judge="regret")
    assert names(caught.value, "rl.reward")


def test_a_file_for_several_algorithms_may_hold_what_only_some_follow(tmp_path: Path) -> None:
    text = "[grpo.reward]\npreset = 'solver'\n[dpo]\nbatch_size = 2"
    assert [load(tmp_path, text, algorithm=name).training.reward.preset for name in ALGORITHM_NAMES] == [
        "solver", None, None, None,
    ]  # fmt: skip
