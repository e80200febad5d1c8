"""Laws of the configuration: shipped files load, wrong keys are named, impossible settings are refused."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from refused import names, refusal

from wordle_rl.config import (
    ALGORITHM_NAMES,
    PRESETS_DIRECTORY,
    ConfigError,
    RunConfig,
    Section,
    load_config,
    stored_config,
)


def sections(root: type[BaseModel] = RunConfig) -> list[type[BaseModel]]:
    found = [root]
    for field in root.model_fields.values():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            found += sections(field.annotation)
    return found


def load(tmp_path: Path, text: str, **options: object) -> RunConfig:
    path = tmp_path / "run.toml"
    path.write_text(text)
    return load_config(path, {tuple(name.split("__")): value for name, value in options.items()})


@pytest.mark.parametrize("path", sorted(PRESETS_DIRECTORY.glob("*.toml")), ids=lambda path: path.stem)
def test_every_preset_loads_and_is_read_back_the_same_from_a_run(path: Path, tmp_path: Path) -> None:
    config = load_config(path)
    assert config != RunConfig()
    (tmp_path / "config.json").write_text(json.dumps(config.stored()))
    assert load_config(tmp_path / "config.json") == config


@pytest.mark.parametrize("section", sections(), ids=lambda section: section.__name__)
def test_every_setting_has_a_description_and_is_closed_and_frozen(section: type[BaseModel]) -> None:
    assert issubclass(section, Section)
    assert [name for name, field in section.model_fields.items() if not field.description] == []
    with pytest.raises(ValidationError):
        section().anything = None


MISSPELT = [
    ("[grpo]\ngroupsize = 4\n", "grpo.groupsize", "grpo.group_size"),
    ("[dpo.optimizer]\nlearningrate = 0.1\n", "dpo.optimizer.learningrate", "dpo.optimizer.learning_rate"),
    ("[trace]\nnum_games = 3\n", "trace", "traces"),
]


@pytest.mark.parametrize(("text", "setting", "meant"), MISSPELT)
def test_a_misspelt_key_is_named_with_the_one_that_was_meant(text, setting, meant, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"run\.toml: .*{setting} .*{meant}"):
        load(tmp_path, text)


IMPOSSIBLE = [
    ("[grpo]\ngroup_size = 1", "rl.group_size"),
    ("[rl.starts]\nmax_prefix_guesses = 6", "rl.starts.max_prefix_guesses"),
    ("[model]\nmicro_batch_size = 3\n[grpo]\ngroups_per_step = 2\ngroup_size = 4", "model.micro_batch_size"),
    ("[grpo]\ntemperature = 0", "rl.temperature"),
    ("[rl]\ntemperature = 0.005\n[grpo]\nengine = 'vllm'", "rl.temperature"),
    ("[rl]\ntemperature = 0.005\n[grpo]\nengine = 'http://localhost:8000'", "rl.temperature"),
    ("algorithm = 'expert_iteration'\n[rl]\ntemperature = 0", "rl.temperature"),
    ("algorithm = 'distill'\n[distill]\ngroup_size = 2\ntemperature = 0", "rl.temperature"),
    ("algorithm = 'distill'\n[distill]\ntargets = 'distribution'\n[traces]\nnarrate = true", "distill.targets"),
    ("algorithm = 'distill'\n[distill]\ntargets = 'distribution'\n[game]\nthinking = 'required'", "distill.targets"),
    ("algorithm = 'distill'\n[game]\nthinking = 'required'", "traces.narrate"),
    ("[expert_iteration]\nreplay_fraction = 1", "expert_iteration.replay_fraction"),
    ("algorithm = 'ppo'", "algorithm"),
    ("[game]\ndictionary = 'lenient'\n[traces]\nslip_rate = 0.1", "traces.slip_rate"),
    ("[game]\nhard_mode = true\n[traces.teacher]\nplan = 'probes'", "game.hard_mode"),
    ("[sft.optimizer]\nlearning_rate = 0", "sft.optimizer.learning_rate"),
    ("[model]\nhidden_size = 100", "model.hidden_size"),
    ("[grpo.reward]\npreset = 'gold'", "grpo.reward.preset"),
    ("[grpo.reward]\npreset = 'solver'\nweights = {win = 1}", "grpo.reward.preset"),
    ("[rl.reward]\npreset = 'solver'\n[grpo.reward]\nweights = {win = 1}", "grpo.reward.weights"),
    ("[grpo]\nserver_timeout_s = 5", "grpo.server_timeout_s"),
    ("[grpo]\nturn_candidates = 4", "grpo.turn_candidates"),
    ("[grpo]\nturn_candidates = 4\ncredit = 'guess'\nscale_advantages = true", "grpo.scale_advantages"),
    ("algorithm = 'distill'\n[rl.reward]\npreset = 'solver'", "rl.reward"),
    ("[expert_iteration.reward]\npreset = 'solver'", "expert_iteration.reward"),
    ("[distill.reward]\npreset = 'solver'", "distill.reward"),
    ("algorithm = 'dpo'\n[dpo]\nreward = {preset = 'solver'}", "dpo.reward"),
    ("[grpo]\nbatch_size = 2", "grpo.batch_size"),
    ("[sft]\nepochs = 0\n[model]\npath = 'x'\n[grpo]\nsteps = 0", "sft.epochs"),
    ("[sft]\nepochs = 0", "model.path"),
    ("[sft]\nepochs = 0\n[model]\npath = 'x'\n[traces]\nfile = 'y'", "traces.file"),
    ("seed = 4294967296", "seed"),
    ("[traces]\nnum_games = 999999999999", "traces.num_games"),
    ("[model]\nnum_layers = 999999999999", "model.num_layers"),
    ("[grpo]\ngroup_size = 999999999999", "grpo.group_size"),
]
"""A file, and the setting that its refusal names."""


@pytest.mark.parametrize(("text", "setting"), IMPOSSIBLE)
def test_an_impossible_setting_is_refused_in_one_line_that_names_it(text: str, setting: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert names(caught.value, setting), str(caught.value)


@pytest.mark.parametrize(("name", "text"), [("run.toml", "seed = 7"), ("config.json", '{"seed": 7}')])
def test_a_file_that_windows_saved_with_a_mark_is_read(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8-sig")
    assert load_config(tmp_path / name) == RunConfig(seed=7)


def test_what_is_only_read_need_not_go_together(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"sft": {"epochs": 0}, "grpo": {"steps": 0}}')
    assert stored_config(path).trained == ()
    with pytest.raises(ConfigError):
        load_config(path)


def test_single_games_whose_boards_are_labelled_may_be_greedy(tmp_path: Path) -> None:
    assert load(tmp_path, "algorithm = 'distill'\n[distill]\ntemperature = 0").rl.temperature == 0
    hindsight = "algorithm = 'expert_iteration'\n[expert_iteration]\nlabels = 'mistakes'\ngroup_size = 1\n"
    assert load(tmp_path, hindsight + "temperature = 0\n[game]\nthinking = 'off'").rl.temperature == 0


SEVERAL = """
rl = { group_size = 6, temperature = 0.7, optimizer = { max_grad_norm = 0.9 } }
grpo = { group_size = 8, reward = { weights = { quick_regret = -6.0 } } }
distill = { temperature = 0.5, optimizer = { learning_rate = 5e-4 } }
dpo = { batch_size = 2 }
"""


def test_the_section_of_an_algorithm_counts_for_it_alone_and_options_above_both(tmp_path: Path) -> None:
    found = {name: load(tmp_path, SEVERAL, algorithm=name).training for name in ALGORITHM_NAMES}
    assert {name: each.group_size for name, each in found.items()} == dict.fromkeys(found, 6) | {"grpo": 8}
    assert [each.sampling.temperature for each in found.values()] == [0.7, 0.7, 0.7, 0.5]
    assert [each.optimizer.max_grad_norm for each in found.values()] == [0.9] * 4, "the rest of a section stays"
    assert [each.optimizer.learning_rate for each in found.values()] == [3e-5, 3e-5, 3e-5, 5e-4]
    assert found["grpo"].reward.weights == {"quick_regret": -6.0}
    assert found["dpo"].batch_size == 2
    overridden = load(tmp_path, SEVERAL, rl__group_size=4, rl__temperature=0.9).training
    assert (overridden.group_size, overridden.sampling.temperature) == (4, 0.9)
    assert overridden.optimizer.max_grad_norm == 0.9


def test_an_option_of_another_algorithm_is_refused_as_it_was_typed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^expert_iteration\.group_size: .*grpo"):
        load(tmp_path, "algorithm = 'grpo'", expert_iteration__group_size=4)
    assert load(tmp_path, "", grpo__group_size=4, algorithm="grpo").training.group_size == 4


@pytest.mark.parametrize("name", ALGORITHM_NAMES)
def test_faults_are_named_as_they_are_written_whether_the_algorithm_is_chosen_or_not(name: str, tmp_path: Path) -> None:
    for text, setting in (
        (f"[{name}.optimizer]\nlearning_rate = 0", f"{name}.optimizer.learning_rate"),
        (f"[{name}]\ngroup_sise = 2", f"{name}.group_sise"),
    ):
        with pytest.raises(ConfigError, match=rf"run\.toml: .*{setting}"):
            load(tmp_path, text)


PIECES = [
    "[rl]", "[grpo]", "[rl.reward]", "weights = { win = 1.0 }", "weights = 3", "seed = 1", 'seed = "x"', "seed = 1e999",
    "algorithm = 'dpo'", "algorithm = 7", "[game", "a = [", "x = " + "[" * 4000, '"" = 1', "[[rl]]", "steps = nan",
    "\x00", "\ufeff", "é = 1", "seed = 99999999999999999999999999", "grpo = 1", "[model]", 'path = "tiny"',
    "[sft.lora]", "rl = []", '[words]\nsource = "../../etc/passwd"', "seed = 1979-05-27", "{", '{"seed": 1}', "}",
    "null", '{"grpo": 3}', '{"later": 1}', "[" * 100_000,
]  # fmt: skip
CONTENT = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=8).map("\n".join).map(str.encode),
    st.binary(max_size=80),
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=CONTENT, name=st.sampled_from(["run.toml", "config.json"]))
def test_any_bytes_are_settings_or_one_line_that_names_the_file(content: bytes, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    for read in (load_config, stored_config):
        if told := refusal(lambda read=read: read(path), ConfigError):
            assert str(path) in told
            assert len(told.splitlines()) == 1
        else:
            assert isinstance(read(path), RunConfig)
