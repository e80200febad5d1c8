"""Laws of the configuration: shipped files load, wrong keys are named, impossible settings are refused."""

import json
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError
from refused import names

from wordle_rl.config import (
    ConfigError,
    RunConfig,
    Section,
    load_config,
    stored_config,
)

CONFIGS = sorted((Path(__file__).parents[2] / "src" / "wordle_rl" / "config" / "presets").rglob("*.toml"))


def sections(root: type[BaseModel] = RunConfig) -> list[type[BaseModel]]:
    found = [root]
    for field in root.model_fields.values():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            found += sections(field.annotation)
    return found


def load(tmp_path: Path, text: str) -> RunConfig:
    path = tmp_path / "run.toml"
    path.write_text(text)
    return load_config(path)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_shipped_config_loads(path: Path) -> None:
    config = load_config(path)
    assert config != RunConfig()


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_stored_config_is_read_back_the_same(path: Path, tmp_path: Path) -> None:
    config = load_config(path)
    (tmp_path / "config.json").write_text(json.dumps(config.stored()))
    assert load_config(tmp_path / "config.json") == config


@pytest.mark.parametrize("section", sections(), ids=lambda section: section.__name__)
def test_every_setting_has_a_description_and_is_closed_and_frozen(section: type[BaseModel]) -> None:
    assert issubclass(section, Section)
    for name, field in section.model_fields.items():
        assert field.description, f"{section.__name__}.{name} has no description"
        assert "\n" not in field.description, "a terminal wraps it by its own width"
    with pytest.raises(ValidationError, match="frozen"):
        setattr(section(), next(iter(section.model_fields)), None)


def test_a_misspelt_key_is_named_with_the_one_that_was_meant(tmp_path: Path) -> None:
    for text, setting, meant in (
        ("[grpo]\ngroupsize = 4\n", "grpo.groupsize", "grpo.group_size"),
        ("[sft.optimizer]\nlearningrate = 0.1\n", "sft.optimizer.learningrate", "sft.optimizer.learning_rate"),
        ("[grpo.optimizer]\nlearningrate = 0.1\n", "grpo.optimizer.learningrate", "grpo.optimizer.learning_rate"),
        (
            "[distill.optimizer]\nlearningrate = 0.1\n",
            "distill.optimizer.learningrate",
            "distill.optimizer.learning_rate",
        ),
        ("[trace]\nnum_games = 3\n", "trace", "traces"),
    ):
        with pytest.raises(ConfigError) as caught:
            load(tmp_path, text)
        assert caught.value.setting == setting
        assert f"run.toml: unknown setting {setting} (did you mean {meant}?)" in str(caught.value)


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, "seed = 'x'\n[grpo]\ngroup_size = 0\n[sft]\nbatchsize = 2\n")
    for name in ("seed", "grpo.group_size", "sft.batchsize"):
        assert name in str(caught.value)


IMPOSSIBLE = {
    "group of one": ("[grpo]\ngroup_size = 1", "rl.group_size"),
    "prefix that leaves no turn": ("[rl.starts]\nmax_prefix_guesses = 6", "rl.starts.max_prefix_guesses"),
    "uneven micro-batch": (
        "[model]\nmicro_batch_size = 3\n[grpo]\ngroups_per_step = 2\ngroup_size = 4",
        "model.micro_batch_size",
    ),
    "greedy policy": ("[grpo]\ntemperature = 0", "rl.temperature"),
    "greedy rounds": ("algorithm = 'expert_iteration'\n[rl]\ntemperature = 0", "rl.temperature"),
    "greedy groups": ("algorithm = 'distill'\n[distill]\ngroup_size = 2\ntemperature = 0", "rl.temperature"),
    "a distribution with thinking": (
        "algorithm = 'distill'\n[distill]\ntargets = 'distribution'\n[traces]\nnarrate = true",
        "distill.targets",
    ),
    "a distribution that must think": (
        "algorithm = 'distill'\n[distill]\ntargets = 'distribution'\n[game]\nthinking = 'required'",
        "distill.targets",
    ),
    "a teacher that may not think": ("algorithm = 'distill'\n[game]\nthinking = 'required'", "traces.narrate"),
    "nothing but replay": ("[expert_iteration]\nreplay_fraction = 1", "expert_iteration.replay_fraction"),
    "outcomes of one game": ("algorithm = 'dpo'\n[dpo]\njudge = 'outcome'\ngroup_size = 1", "rl.group_size"),
    "unknown algorithm": ("algorithm = 'ppo'", "algorithm"),
    "slips where nothing is unlisted": (
        "[game]\ndictionary = 'lenient'\n[traces]\nslip_rate = 0.1",
        "traces.slip_rate",
    ),
    "probes in hard mode": ("[game]\nhard_mode = true\n[traces.teacher]\nplan = 'probes'", "game.hard_mode"),
    "no rate": ("[sft.optimizer]\nlearning_rate = 0", "sft.optimizer.learning_rate"),
    "a width of no whole heads": ("[model]\nhidden_size = 100", "model.hidden_size"),
    "unknown reward": ("[grpo.reward]\npreset = 'gold'", "grpo.reward.preset"),
    "two rewards": ("[grpo.reward]\npreset = 'solver'\nweights = {win = 1}", "grpo.reward.preset"),
    "two rewards in two sections": (
        "[rl.reward]\npreset = 'solver'\n[grpo.reward]\nweights = {win = 1}",
        "grpo.reward.weights",
    ),
    "credit that candidates do not follow": ("[grpo]\nturn_candidates = 4", "grpo.turn_candidates"),
    "kept models without checkpoints": ("[grpo]\nsave_total_limit = 3", "grpo.save_total_limit"),
    "a project without trackers": ("report_project = 'wordle'", "report_project"),
    "a std that candidates do not have": (
        "[grpo]\nturn_candidates = 4\ncredit = 'guess'\nscale_advantages = true",
        "grpo.scale_advantages",
    ),
    "one ratio for many advantages": ("[grpo]\nloss_type = 'gspo'", "grpo.loss_type"),
    "reward of labels": ("algorithm = 'distill'\n[rl.reward]\npreset = 'solver'", "rl.reward"),
    "reward of wins": ("[expert_iteration.reward]\npreset = 'solver'", "expert_iteration.reward"),
    "batches of a step": ("[grpo]\nbatch_size = 2", "grpo.batch_size"),
    "nothing to train": ("[sft]\nepochs = 0\n[model]\npath = 'x'\n[grpo]\nsteps = 0", "sft.epochs"),
    "nothing that was ever taught": ("[sft]\nepochs = 0", "model.path"),
    "games that nobody learns": ("[sft]\nepochs = 0\n[model]\npath = 'x'\n[traces]\nfile = 'y'", "traces.file"),
    "boards that nobody starts from": ("[rl.starts]\nfile = 'x'\n[grpo]\nsteps = 0", "rl.starts.file"),
    "seed beyond 32 bits": ("seed = 4294967296", "seed"),
}
"""What goes wrong -> a file, and the setting that its refusal names."""


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_an_impossible_setting_is_refused_in_one_line_that_names_it(case: str, tmp_path: Path) -> None:
    text, setting = IMPOSSIBLE[case]
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert names(caught.value, setting), (caught.value.setting, str(caught.value))


@pytest.mark.parametrize("name", ["traces.num_games", "model.num_layers", "grpo.group_size", "dpo.batch_size"])
def test_more_than_memory_can_hold_is_refused(name: str, tmp_path: Path) -> None:
    section, setting = name.split(".")
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, f"[{section}]\n{setting} = 999999999999")
    assert caught.value.setting == name


@pytest.mark.parametrize(
    "text",
    [
        "[grpo]\nloss_type = 'gspo'\ncredit = 'game'",
        "[grpo]\nloss_type = 'gspo'\n[game]\nshape = 'state'",
        "[grpo]\nloss_type = 'gspo'\nturn_candidates = 4\ncredit = 'guess'",
    ],
)
def test_one_ratio_per_sequence_goes_with_one_advantage(text: str, tmp_path: Path) -> None:
    assert load(tmp_path, text).grpo.by_sequence


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no config file .*nowhere\.toml"):
        load_config(tmp_path / "nowhere.toml")


@pytest.mark.parametrize("content", [b"[grpo", b"seed = = 1", b"\xff\xfe\x00"])
def test_a_file_that_is_no_toml_is_named(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"bad\.toml"):
        load_config(path)


@pytest.mark.parametrize(("name", "text"), [("run.toml", "seed = 7"), ("config.json", '{"seed": 7}')])
def test_a_file_that_windows_saved_with_a_mark_is_read(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8-sig")
    assert load_config(tmp_path / name) == RunConfig(seed=7)


@pytest.mark.parametrize("damage", ["[]", "{", '{"grpo": 3}', '{"seed": "x"}', '{"later": 1}'])
def test_stored_settings_that_cannot_be_used_are_named_in_one_line(damage: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(damage)
    with pytest.raises(ConfigError, match=r"config\.json") as caught:
        stored_config(tmp_path / "config.json")
    assert "\n" not in str(caught.value)


def test_what_is_only_read_need_not_go_together(tmp_path: Path) -> None:
    alone = {"sft": {"epochs": 0.0}, "grpo": {"steps": 0}}
    (tmp_path / "config.json").write_text(json.dumps(alone))
    assert stored_config(tmp_path / "config.json").trained == ()
    with pytest.raises(ConfigError):
        load_config(tmp_path / "config.json")


def test_single_games_whose_boards_are_labelled_may_be_greedy(tmp_path: Path) -> None:
    assert load(tmp_path, "algorithm = 'distill'\n[distill]\ntemperature = 0").rl.temperature == 0
    hindsight = "algorithm = 'expert_iteration'\n[expert_iteration]\nlabels = 'mistakes'\ngroup_size = 1\n"
    assert load(tmp_path, hindsight + "temperature = 0\n[game]\nthinking = 'off'").rl.temperature == 0
