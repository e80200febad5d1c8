"""Laws of the configuration: shipped files load, wrong keys are named, impossible settings are refused."""

import json
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError
from refused import names

from wordle_rl.config import (
    ConfigError,
    GRPOTraining,
    LLMTeacherSettings,
    RunConfig,
    Section,
    describe,
    load_config,
    stored_config,
)
from wordle_rl.reward import CURRICULA

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


def test_there_are_shipped_configs() -> None:
    assert "quickstart" in {path.stem for path in CONFIGS}


def test_the_defaults_survive_json(tmp_path: Path) -> None:
    config = RunConfig()
    (tmp_path / "config.json").write_text(json.dumps(config.stored()))
    assert load_config(tmp_path / "config.json") == config


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


def test_nonsense_gets_no_hint(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown setting zzzzqqq$"):
        load(tmp_path, "zzzzqqq = 1\n")


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, "seed = 'x'\n[grpo]\ngroup_size = 0\n[sft]\nbatchsize = 2\n")
    for name in ("seed", "grpo.group_size", "sft.batchsize"):
        assert name in str(caught.value)


IMPOSSIBLE = {
    "group of one": ("[grpo]\ngroup_size = 1", "rl.group_size"),
    "prefix that leaves no turn": ("[rl.starts]\nmax_prefix_guesses = 6", "rl.starts.max_prefix_guesses"),
    "no group": ("[grpo]\ngroups_per_step = 0", "grpo.groups_per_step"),
    "uneven micro-batch": (
        "[model]\nmicro_batch_size = 3\n[grpo]\ngroups_per_step = 2\ngroup_size = 4",
        "model.micro_batch_size",
    ),
    "greedy policy": ("[grpo]\ntemperature = 0", "rl.temperature"),
    "negative temperature": ("[grpo]\ntemperature = -1", "grpo.temperature"),
    "greedy rounds": ("algorithm = 'expert_iteration'\n[rl]\ntemperature = 0", "rl.temperature"),
    "greedy DPO": ("algorithm = 'dpo'\n[rl]\ntemperature = 0", "rl.temperature"),
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
    "no tokens": ("max_completion_tokens = 0", "max_completion_tokens"),
    "probes in hard mode": ("[game]\nhard_mode = true\n[traces.teacher]\nplan = 'probes'", "game.hard_mode"),
    "no games": ("[traces]\nnum_games = 0", "traces.num_games"),
    "no rate": ("[sft.optimizer]\nlearning_rate = 0", "sft.optimizer.learning_rate"),
    "a width of no whole heads": ("[model]\nhidden_size = 100", "model.hidden_size"),
    "unknown style": ("[game]\nstyle = 'fancy'", "game.style"),
    "unknown optimizer": ("[sft.optimizer]\nname = 'sgd'", "sft.optimizer.name"),
    "unknown reward": ("[grpo.reward]\npreset = 'gold'", "grpo.reward.preset"),
    "two rewards": ("[grpo.reward]\npreset = 'solver'\nweights = {win = 1}", "grpo.reward.preset"),
    "two rewards, one the default": ("[rl.reward]\npreset = 'sparse'\nweights = {win = 1}", "rl.reward.preset"),
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
    "reward of judged guesses": ("algorithm = 'dpo'\n[rl.reward]\npreset = 'solver'", "rl.reward"),
    "batches of a step": ("[grpo]\nbatch_size = 2", "grpo.batch_size"),
    "unknown tracker": ("report_to = ['paper']", "report_to"),
    "nothing to train": ("[sft]\nepochs = 0\n[model]\npath = 'x'\n[grpo]\nsteps = 0", "sft.epochs"),
    "nothing that was ever taught": ("[sft]\nepochs = 0", "model.path"),
    "games that nobody learns": ("[sft]\nepochs = 0\n[model]\npath = 'x'\n[traces]\nfile = 'y'", "traces.file"),
    "boards that nobody starts from": ("[rl.starts]\nfile = 'x'\n[grpo]\nsteps = 0", "rl.starts.file"),
    "negative seed": ("seed = -1", "seed"),
    "seed beyond 32 bits": ("seed = 4294967296", "seed"),
}
"""What goes wrong -> a file, and the setting that its refusal names."""


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_an_impossible_setting_is_refused_in_one_line_that_names_it(case: str, tmp_path: Path) -> None:
    text, setting = IMPOSSIBLE[case]
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert names(caught.value, setting), (caught.value.setting, str(caught.value))


@pytest.mark.parametrize(
    "name",
    [
        "traces.num_games", "model.hidden_size", "model.num_layers",
        "sft.batch_size", "grpo.groups_per_step", "grpo.group_size", "expert_iteration.groups_per_round",
        "expert_iteration.group_size", "expert_iteration.batch_size", "dpo.groups_per_round", "dpo.group_size",
        "dpo.batch_size", "distill.groups_per_round", "distill.group_size",
        "distill.batch_size",
    ],
)  # fmt: skip
def test_more_than_memory_can_hold_is_refused(name: str, tmp_path: Path) -> None:
    section, setting = name.split(".")
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, f"[{section}]\n{setting} = 999999999999")
    assert caught.value.setting == name


def test_more_games_of_a_word_than_memory_can_hold_are_refused() -> None:
    with pytest.raises(ValidationError, match="games_per_word"):
        LLMTeacherSettings(games_per_word=10**12)


def test_own_weights_alone_are_stored_and_read_back(tmp_path: Path) -> None:
    config = load(tmp_path, "[rl.reward]\nweights = {win = 1}")
    (tmp_path / "config.json").write_text(json.dumps(config.stored()))
    assert load_config(tmp_path / "config.json") == config


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


def test_a_curriculum_takes_the_order_that_was_set(tmp_path: Path) -> None:
    reward = "[grpo.reward]\npreset = 'shaped_curriculum'\n"
    stored = load(tmp_path, reward).rl.reward.schedule()
    assert stored == CURRICULA["shaped_curriculum"]
    other = load(tmp_path, reward + "keep_order = false").rl.reward.schedule()
    assert not other.keep_order
    assert (other.start, other.end) == (stored.start, stored.end)


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


def test_describe_keeps_to_one_line_and_drops_the_library_prefix() -> None:
    with pytest.raises(ValidationError) as caught:
        GRPOTraining(groups_per_step=2, group_size=2, micro_batch_size=3)
    assert describe(caught.value) == "config: model.micro_batch_size 3 must divide the 4 games of a step"


def test_the_prompter_of_a_game_has_its_rules() -> None:
    prompter = RunConfig.model_validate(
        {"game": {"max_turns": 8, "hard_mode": True}, "traces": {"teacher": {}}}
    ).game.prompter(4)
    assert (prompter.rules.max_turns, prompter.rules.hard_mode, prompter.word_length) == (8, True, 4)


def test_single_games_whose_boards_are_labelled_may_be_greedy(tmp_path: Path) -> None:
    assert load(tmp_path, "algorithm = 'distill'\n[distill]\ntemperature = 0").rl.temperature == 0
    hindsight = "algorithm = 'expert_iteration'\n[expert_iteration]\nlabels = 'mistakes'\ngroup_size = 1\n"
    assert load(tmp_path, hindsight + "temperature = 0").rl.temperature == 0
