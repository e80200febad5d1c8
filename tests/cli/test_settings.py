"""Laws of settings on the command line: laid over a preset or file in any order, validated together, faults named."""

import itertools
import json
import math
import typing
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from wordle_rl.cli import COMMANDS, run
from wordle_rl.cli.arguments import read as read_arguments
from wordle_rl.cli.arguments import take_settings
from wordle_rl.config.base import ConfigError
from wordle_rl.config.files import load_config
from wordle_rl.config.run import RunConfig, every_setting


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A config file that says it begins with GRPO, and not with which model."""
    reward = "reward = { weights = { win = 2.0, format = 1.0 } }"
    (tmp_path / "half.toml").write_text(f'stages = ["grpo"]\n[grpo]\ncredit = "game"\n{reward}\n')
    return tmp_path / "half.toml"


@pytest.fixture
def read(monkeypatch, cli):
    """The settings that a command line gives, and the error that it is answered with."""

    def command(*arguments: object) -> tuple[RunConfig | None, str]:
        asked: list[RunConfig] = []
        for name in ("run_chain", "look_at"):
            monkeypatch.setattr(run, name, lambda config, *_: asked.append(config))
        code, _, error = cli(*arguments)
        assert (code, error.count("\n")) == ((0, 0) if asked else (2, 1))
        return (asked[0] if asked else None), error

    return command


@pytest.mark.parametrize("command", ["run", "preflight"])
def test_the_file_stands_anywhere_among_the_settings(command: str, read, file: Path) -> None:
    parts = [[file], ["--model.path", "/some/model"], ["--grpo.steps=8"], ["--grpo.scale-advantages"]]
    found = [read(command, *itertools.chain(*order))[0] for order in itertools.permutations(parts)]
    assert (found[0].stages, found[0].grpo.steps, found[0].grpo.credit) == (("grpo",), 8, "game")
    assert (found[0].model.path, found[0].grpo.scale_advantages) == ("/some/model", True)
    assert all(config == found[0] for config in found)


def test_a_preset_is_found_by_its_bare_name_and_a_file_of_that_name_comes_first(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    preset = load_config("quickstart")
    assert preset == load_config("quickstart.toml") != RunConfig()
    (tmp_path / "quickstart").mkdir()
    assert load_config("quickstart") == preset, "a run's directory is no file"
    (tmp_path / "quickstart.toml").write_text("seed = 7")
    assert load_config("quickstart.toml") == RunConfig(seed=7)
    with pytest.raises(ConfigError, match="did you mean quickstart"):
        load_config("quikstart")


def test_faults_of_file_and_settings_are_told_in_one_line_each_with_its_source(read, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("seed = -1\n[grpo]\ngroupsize = 4\n[sft]\nbatch_size = 0\n")
    told = read("run", "--grpo.max-refills", -1, path)[1]
    for fault in (f"{path}: seed", f"{path}: sft.batch_size", f"{path}: unknown setting grpo.groupsize", "; grpo.max_"):
        assert fault in told
    path.write_text("seed = -1\n")
    assert read("run", path, "--seed", 3)[0].seed == 3, "a setting takes the place of a value that is at fault"
    path.write_text("sft = 3\n")
    assert "sft: " in read("run", path, "--sft.epochs", 3)[1]


def test_values_of_every_kind_are_read(read) -> None:
    config = read(
        "run", "original", "--stages", "sft,grpo", "--grpo.validate-every-steps", 5,
        "--grpo.max-importance-ratio", "None", "--traces.file", "some.jsonl",
        "--report-to", "wandb,trackio", "--model.template-kwargs.enable_thinking", "false",
        "--model.template_kwargs.depth=5", "--grpo.reward.weights", "{win = 2}", "--game.system-prompt", "none",
        "--grpo.interpolation-alphas", "[0.5, 1.0]", "--model.gradient-checkpointing", "--traces.narrate",
        "false", "--grpo.optimizer.learning-rate", "1e-4",
    )[0]  # fmt: skip
    assert (config.grpo.max_importance_ratio, config.grpo.reward.weights) == (None, {"win": 2.0})
    assert (config.traces.file, config.traces.narrate) == (Path("some.jsonl"), False)
    assert config.stages == ("sft", "grpo")
    assert config.report_to == ("wandb", "trackio")
    assert config.model.template_kwargs == {"enable_thinking": False, "depth": 5}
    assert config.model.gradient_checkpointing is True
    assert config.grpo.interpolation_alphas == (0.5, 1.0)
    assert config.game.system_prompt is None
    assert config.grpo.optimizer.learning_rate == 1e-4


def test_one_weight_is_laid_over_those_of_the_file_and_a_table_replaces_them(read, file: Path) -> None:
    given = ("run", file, "--model.path", "/some/model")
    assert read(*given, "--grpo.reward.weights.win", 3)[0].grpo.reward.weights == {"win": 3.0, "format": 1.0}
    assert read(*given, "--grpo.reward.weights", "{win = 3}")[0].grpo.reward.weights == {"win": 3.0}


def test_a_second_stage_of_a_kind_takes_settings_of_its_own(read, file: Path) -> None:
    config = read("run", file, "--stages", "sft,grpo,grpo_2", "--grpo-2.steps", 7, "--grpo.group-size=4")[0]
    assert config.stages == ("sft", "grpo", "grpo_2")
    assert [(own.steps, own.group_size, own.credit) for _, own in config.stages_of("grpo")] == [
        (100, 4, "game"),
        (7, 4, "game"),
    ]


def test_the_settings_that_a_run_stores_are_taken_with_others(read, file: Path, tmp_path: Path) -> None:
    stored = read("run", file, "--model.path", "/some/model")[0]
    (tmp_path / "config.json").write_text(json.dumps(stored.stored()))
    assert read("run", tmp_path / "config.json")[0] == stored
    assert read("run", "--seed", 5, tmp_path / "config.json")[0] == stored.model_copy(update={"seed": 5})


def test_a_run_directory_is_named_for_its_preset_or_file(monkeypatch, file: Path, cli) -> None:
    asked = []
    monkeypatch.setattr(run, "run_chain", lambda _, out, *__: asked.append(out))
    for given in (["--model.path", "/some/model", file], ["quickstart"], ["qwen3-1.7b"]):
        assert cli("run", *given)[0] == 0
    assert asked == [Path("runs/half"), Path("runs/quickstart"), Path("runs/qwen3-1.7b")]
    assert cli("run")[0] == 2


def kinds_of(annotation: object) -> set[object]:
    """The types that an annotation is made of."""
    parts = typing.get_args(annotation)
    return {annotation} | {kind for part in parts for kind in kinds_of(part)} if parts else {annotation}


NUMBERS = [".".join(each) for each, field, _ in every_setting(RunConfig()) if {int, float} & kinds_of(field.annotation)]


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "-1", "0", "1e30"])
def test_every_number_is_finite_and_taken_as_given_or_named(value: str) -> None:
    assert len(NUMBERS) > 50
    others = {}
    for name in NUMBERS:
        given, _ = take_settings([f"--{name.replace('_', '-')}={value}"])
        [setting] = given
        try:
            found = load_config(None, given)
        except ConfigError as error:
            if setting[-1] not in str(error) or "\n" in str(error):
                others[name] = str(error)
            continue
        for part in setting:
            found = getattr(found, part)
        if isinstance(found, dict | str):  # a table of your own, or a path
            continue
        if not math.isfinite(float(value)) or found != float(value):
            others[name] = found
    assert others == {}


NEEDED = {
    "power": ["60", "70"],
    "traces": ["--out", "t.jsonl"],
    "compare": ["a.json", "b.json"],
    "conformance": ["--trainer", "somewhere:adapter"],
    **{name: ["quickstart"] for name in ("run", "preflight")},
    "eval": ["--player", "solver"],
    **{name: ["somewhere"] for name in ("report", "export", "dataset")},
}
"""Arguments without which a command is not read."""


def numeric_options(function: Callable[..., object]) -> Iterator[str]:
    """The options of a command whose value is a number, those of its sections of settings included."""
    for name, kind in typing.get_type_hints(function).items():
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            needed = {key: "x" for key, field in kind.model_fields.items() if field.is_required()}
            nested = ((each, field) for each, field, _ in every_setting(kind.model_construct(**needed)))
            yield from (".".join(each) for each, field in nested if {int, float} & kinds_of(field.annotation))
        elif name != "return" and {int, float} & kinds_of(kind):
            yield name


@pytest.mark.parametrize("command", COMMANDS)
def test_no_option_takes_a_number_that_is_not_finite(command: str, capsys) -> None:
    function, taken = COMMANDS[command].load(), []
    for option, value in itertools.product(numeric_options(function), ("inf", "nan")):
        given = [*NEEDED.get(command, []), f"--{option.replace('_', '-').removeprefix('patience.')}={value}"]
        if command == "power" and option == "rates":
            given = [value, "60"]
        try:
            taken.append((option, read_arguments(function, command, given)))
        except (ConfigError, SystemExit):
            assert "Unrecognized" not in capsys.readouterr().err, given
    assert taken == []
