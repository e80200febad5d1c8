"""Laws of the configuration: shipped files load, wrong keys are named, impossible settings are refused."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from refused import names, refusal

from wordle_rl.config.base import ConfigError, Section
from wordle_rl.config.files import PRESETS_DIRECTORY, load_config, stored_config
from wordle_rl.config.run import RunConfig
from wordle_rl.config.stages import STAGES, SFTSettings


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


SERVED = "engine = 'http://localhost:8000'\nreward = {keep_order = false}"
IMPOSSIBLE = [
    ("[grpo]\ngroup_size = 1", "grpo.group_size"),
    ("[grpo]\ntemperature = 0", "grpo.temperature"),
    ("[grpo]\ntemperature = 0.005\nengine = 'vllm'", "grpo.temperature"),
    ("[grpo]\ntemperature = 0.005\nengine = 'http://localhost:8000'", "grpo.temperature"),
    ("[expert_iteration]\ntemperature = 0", "expert_iteration.temperature"),
    ("[dpo]\ntemperature = 0\ngroup_size = 1", "dpo.temperature"),
    ("[distill]\ngroup_size = 2\ntemperature = 0", "distill.temperature"),
    ("[distill]\ntargets = 'nowhere'", "distill.targets"),
    ("[expert_iteration]\nreplay_fraction = 1", "expert_iteration.replay_fraction"),
    ("[sft.optimizer]\nlearning_rate = 0", "sft.optimizer.learning_rate"),
    ("[game]\nshape = 'spoken'\nthinking = 'off'", "game.shape"),
    ("[model]\nhidden_size = 100", "model.hidden_size"),
    ("[grpo.reward]\npreset = 'gold'", "grpo.reward.preset"),
    ("[grpo.reward]\npreset = 'solver'\nweights = {win = 1}", "grpo.reward.preset"),
    ("[grpo.reward]\nglide = true", "grpo.reward.glide"),
    ("[grpo.reward]\npreset = 'sparse'\nphases = [{at = 0, weights = {win = 1}}]", "phases"),
    ("[grpo.reward]\nphases = [{at = 0, weights = {}}]", "grpo.reward"),
    ("[grpo.reward]\nphases = [{at = 0.5, weights = {win = 1}}]", "begin at 0"),
    ("[grpo.reward]\nphases = [{at = 0, weights = {win = 1}}, {at = 0, weights = {win = 2}}]", "rise"),
    ("[grpo]\nserver_timeout_s = 5", "grpo.server_timeout_s"),
    ("[grpo]\nturn_candidates = 4", "grpo.turn_candidates"),
    ("[grpo]\nbelief_clip = 1.0", "grpo.belief_clip"),
    ("[grpo]\nbelief_weight = 1.0", "reward.keep_order"),
    ("[grpo]\nbelief_weight = 1.0\nguesses = 1\nreward = {keep_order = false}", "grpo.belief_weight"),
    (f"[grpo]\nbelief_weight = 1.0\nbatches_ahead = 1\n{SERVED}", "grpo.batches_ahead"),
    ("[grpo]\nmax_importance_ratio = 2.0\nupdates_per_batch = 2", "max_importance_ratio"),
    (f"[grpo]\nmax_importance_ratio = 2.0\nbatches_ahead = 1\n{SERVED}", "max_importance_ratio"),
    ("[grpo]\nconstrain = 'words'\nengine = 'vllm'", "grpo.constrain"),
    ("[grpo]\nturn_candidates = 4\ncredit = 'guess'\nscale_advantages = true", "grpo.scale_advantages"),
    ("[expert_iteration.reward]\npreset = 'solver'", "expert_iteration.reward"),
    ("[distill.reward]\npreset = 'solver'", "distill.reward"),
    ("[dpo]\nreward = {preset = 'solver'}", "dpo.reward"),
    ("[grpo]\nbatch_size = 2", "grpo.batch_size"),
    ("[sft]\nepochs = 0", "sft.epochs"),
    ("[grpo]\nsteps = 0", "grpo.steps"),
    ("[grpo]\nvalidation_file = 'val.txt'", "grpo.validation_file"),
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
    path.write_text('{"stages": ["grpo"], "grpo": {"temperature": 0}}')
    assert stored_config(path).grpo.temperature == 0
    with pytest.raises(ConfigError):
        load_config(path)


def test_single_games_whose_boards_are_labelled_may_be_greedy(tmp_path: Path) -> None:
    assert load(tmp_path, "[distill]\ntemperature = 0").distill.temperature == 0
    hindsight = "[expert_iteration]\nlabels = 'mistakes'\ngroup_size = 1\ntemperature = 0"
    assert load(tmp_path, hindsight).expert_iteration.temperature == 0


# --- stages ---------------------------------------------------------------------------------------------------------

NO_STAGES = [
    ("[]", "empty"),
    ("['ppo']", "ppo"),
    ("['sft', 'grpo', 'grpo']", "grpo_2"),
    ("['grpo_2']", "grpo_2"),
    ("['sft', 'grpo_1']", "grpo_1"),
    ("['sft', 'grpo', 'grpo_3']", "grpo_3"),
    ("['sft', 'grpo', 'sft']", "sft_2"),
    ("['base']", "base"),
    ("'sft'", "stages"),
    ("[1]", "stages"),
]


@pytest.mark.parametrize(("stages", "named"), NO_STAGES)
def test_stages_that_name_no_chain_are_refused(stages: str, named: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"run\.toml: .*stages") as caught:
        load(tmp_path, f"stages = {stages}")
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


TWICE = """
stages = ["sft", "grpo", "grpo_2"]
[grpo]
group_size = 6
temperature = 0.7
optimizer = { max_grad_norm = 0.9 }
reward = { weights = { win = 2.0, speed = 1.0 } }
[grpo_2]
temperature = 0.5
optimizer = { learning_rate = 5e-4 }
reward = { weights = { win = 1.0 } }
"""


def test_the_second_stage_of_a_kind_has_the_values_of_the_first_and_its_own_above_them(tmp_path: Path) -> None:
    config = load(tmp_path, TWICE)
    first, second = (own for _, own in config.stages_of("grpo"))
    assert (first.group_size, second.group_size) == (6, 6)
    assert (first.temperature, second.temperature) == (0.7, 0.5)
    assert [own.optimizer.max_grad_norm for own in (first, second)] == [0.9, 0.9], "the rest of a section stays"
    assert [own.optimizer.learning_rate for own in (first, second)] == [3e-5, 5e-4]
    assert [own.reward.weights for own in (first, second)] == [{"win": 2.0, "speed": 1.0}, {"win": 1.0}]
    (tmp_path / "config.json").write_text(json.dumps(config.stored()))
    assert load_config(tmp_path / "config.json") == stored_config(tmp_path / "config.json") == config
    assert config.seed_of("grpo") == config.seed != config.seed_of("grpo_2")


def test_an_option_counts_for_the_stage_it_names_and_what_inherits_from_that(tmp_path: Path) -> None:
    changed = load(tmp_path, TWICE, grpo_2__steps=7, grpo__group_size=8)
    assert [(own.steps, own.group_size) for _, own in changed.stages_of("grpo")] == [(100, 8), (7, 8)]
    shorter = load(tmp_path, TWICE, stages=["grpo"], model__path="somewhere")
    assert shorter.stages_of() == [("grpo", shorter.grpo)], "a file may describe stages that a run leaves out"


def test_a_numbered_stage_needs_no_section(tmp_path: Path) -> None:
    config = load(tmp_path, "stages = ['sft', 'dpo', 'sft_2']\n[sft]\nepochs = 3")
    assert config.settings_of("sft_2") == config.sft != SFTSettings()


@pytest.mark.parametrize("stage", ["dpo", "grpo_3"])
def test_an_option_of_a_stage_that_does_not_run_is_refused_as_it_was_typed(stage: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"^{stage}\.group_size: .*stages"):
        load(tmp_path, TWICE, **{f"{stage}__group_size": 4})
    with pytest.raises(ConfigError, match="stages"):
        load(tmp_path, "stages = [1]", **{f"{stage}__group_size": 4})
    chosen = load(tmp_path, "", grpo__group_size=4, stages=["sft", "grpo"])
    assert chosen.grpo.group_size == 4


@pytest.mark.parametrize("name", [*STAGES, "grpo_2"])
def test_faults_are_named_as_they_are_written_whether_a_stage_runs_or_not(name: str, tmp_path: Path) -> None:
    for text, setting in (
        (f"[{name}.optimizer]\nlearning_rate = 0", f"{name}.optimizer.learning_rate"),
        (f"[{name}]\ntemperatur = 2", f"{name}.temperatur"),
    ):
        with pytest.raises(ConfigError, match=rf"run\.toml: .*{setting}"):
            load(tmp_path, text)


OLD = [
    ("[rl]\ngroup_size = 4", "rl"),
    ("[rl.reward]\npreset = 'solver'", "rl"),
    ("algorithm = 'dpo'", "algorithm"),
]


@pytest.mark.parametrize(("text", "setting"), OLD)
def test_a_file_from_before_there_were_stages_is_told_of_them(text: str, setting: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"run\.toml: .*{setting} .*stage") as caught:
        load(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_a_run_from_before_there_were_stages_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"algorithm": "grpo", "rl": {"group_size": null}, "grpo": {"steps": 3}, "seed": 0}')
    for read in (load_config, stored_config):
        with pytest.raises(ConfigError, match=rf"{path}: .*stages") as caught:
            read(path)
        assert "\n" not in str(caught.value)


PIECES = [
    "[rl]", "[grpo]", "[rl.reward]", "weights = { win = 1.0 }", "weights = 3", "seed = 1", 'seed = "x"', "seed = 1e999",
    "algorithm = 'dpo'", "stages = ['sft', 'dpo', 'dpo_2']", "stages = 7", "stages = ['grpo', []]", "[grpo_2]",
    "[game", "a = [", "x = " + "[" * 4000, '"" = 1', "[[rl]]", "steps = nan",
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
