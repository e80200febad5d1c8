"""Laws of settings on the command line: file and options in any order, validated together, faults with their source."""

import itertools
import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from pydantic import BaseModel
from training_fixtures import write_config

from wordle_rl.cli import main, preflight, run
from wordle_rl.cli.settings import options_of
from wordle_rl.config import RunConfig

COMPLETED = """
[sft]
epochs = 0
[eval]
regret = false
[grpo]
credit = "game"
reward = { weights = { win = 2.0, format = 1.0 } }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A config file that says it begins with GRPO, and not with which model."""
    path = tmp_path / "half.toml"
    path.write_text(COMPLETED)
    return path


@pytest.fixture
def read(monkeypatch, capsys):
    """The settings that a command line gives, and the error that it is answered with."""

    def command(*arguments: object) -> tuple[RunConfig | None, str]:
        asked: list[RunConfig] = []
        monkeypatch.setattr(run, "run_chain", lambda config, *_: asked.append(config))
        monkeypatch.setattr(preflight, "look_at", lambda config, *_: asked.append(config))
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        assert code == (0 if asked else 2)
        error = capsys.readouterr().err
        assert error.count("\n") == (not asked)
        return (asked[0] if asked else None), error

    return command


@pytest.mark.parametrize("command", ["run", "preflight"])
def test_the_config_file_stands_anywhere_among_the_options(command: str, read, file: Path) -> None:
    parts = [[file], ["--model.path", "/some/model"], ["--sft.batch_size=8"], ["--grpo.no-scale-advantages"]]
    found = [read(command, *itertools.chain(*order))[0] for order in itertools.permutations(parts)]
    assert found[0].model_dump()["model"]["path"] == "/some/model"
    assert (found[0].sft.epochs, found[0].sft.batch_size, found[0].grpo.credit) == (0.0, 8, "game")
    assert all(config == found[0] for config in found)


def test_a_file_is_validated_together_with_the_options_that_complete_it(read, file: Path) -> None:
    assert read("run", file)[1].startswith(f"error: {file}: config: sft.epochs is 0 and model.path 'tiny'")
    assert read("run", file, "--model.path", "/some/model")[0].start == "base"
    assert read("run", "--sft.epochs", 2, file)[0].start == "sft"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ("--rl.group-size 0", "rl.group_size: Input should be greater than or equal to 1"),
        ("--rl.group-size 1", "{file} and options: config: rl.group_size 1 leaves no baseline"),
        ("--sft.epochs 1 --game.max-turns 5", "{file} and options: config: traces.teacher.max_turns 6 exceeds"),
        ("--sft.epochs 1 --rl.reward.preset sparse", "{file} and options: grpo.reward: preset 'sparse' and weights"),
        ("--sft.epochs 1 --rl.reward.preset solver", "{file} and options: grpo.reward: preset 'solver' and weights"),
        ("--sft.epochs 1 --rl.starts.fraction 2", "rl.starts.fraction: Input should be less than or equal to 1"),
        ("--report-to wandb {file}", "invalid choice '{file}' for argument '--report-to'"),
        ("--model.template-kwargs a 1 {file}", "Error parsing --model.template-kwargs"),
    ],
)
def test_a_fault_is_told_with_where_it_comes_from(options: str, error: str, read, file: Path, monkeypatch) -> None:
    monkeypatch.chdir(file.parent)
    given = options.format(file=file.name).split()
    arguments = given if file.name in given else [file.name, *given]
    assert read("run", *arguments)[1].startswith(f"error: {error.format(file=file.name)}")


def test_faults_of_file_and_options_are_told_in_one_line(read, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("seed = -1\n[grpo]\ngroupsize = 4\n[sft]\nbatch_size = 0\n")
    told = read("run", "--grpo.epsilon", 0, path)[1]
    assert "grpo.epsilon: Input should be greater than 0" in told
    assert f"{path}: sft.batch_size: Input should be" in told
    assert f"{path}: unknown setting grpo.groupsize (did you mean grpo.group_size?)" in told
    assert told.count(str(path)) == 2, "once for faults in a row"


def test_an_option_takes_the_place_of_a_value_that_is_at_fault(read, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("seed = -1\n")
    assert read("run", path, "--seed", 3)[0].seed == 3
    path.write_text("sft = 3\n")
    assert f"{path} and options: sft: Input should be a valid dictionary" in read("run", path, "--sft.epochs", 3)[1]
    path.write_text("[model]\npath = 3\n")
    assert f"{path}: model.path: Input should be a valid string" in read("run", path, "--sft.epochs", 3)[1]


def test_after_an_option_of_several_values_two_dashes_lead_to_the_file(read, file: Path) -> None:
    model = ("--model.path", "/some/model")
    config = read("run", *model, "--report-to", "wandb", "trackio", "--", file)[0]
    assert (config.report_to, config.sft.epochs) == (("wandb", "trackio"), 0.0)
    config = read("run", "--report-to", "wandb", *model, file)[0]
    assert (config.report_to, config.sft.epochs) == (("wandb",), 0.0)


def test_a_flag_is_turned_either_way_whatever_the_file_says(read, file: Path) -> None:
    given = ("run", file, "--model.path", "/some/model")
    assert [read(*given, *flag)[0].eval.regret for flag in ((), ("--eval.regret",), ("--eval.no-regret",))] == [
        False, True, False,
    ]  # fmt: skip
    assert [read("run", *flag)[0].eval.regret for flag in ((), ("--eval.no-regret",))] == [True, False]


def test_values_of_every_kind_are_read(read) -> None:
    config = read(
        "run", "--grpo.max-importance-ratio", "None", "--game.style", "compact", "--traces.file", "some.jsonl",
        "--model.template-kwargs", "enable_thinking", "False", "depth", 5, "--rl.reward.weights", "win", 2,
        "--grpo.interpolation-alphas", 1.0, "--game.system-prompt", "None",
    )[0]  # fmt: skip
    assert config.grpo.max_importance_ratio is None
    assert (config.game.style, config.traces.file) == ("compact", Path("some.jsonl"))
    assert config.model.template_kwargs == {"enable_thinking": False, "depth": 5}
    assert config.rl.reward.weights == {"win": 2.0}
    assert "interpolation_alphas" in config.grpo.model_fields_set, "given, though it is the default"
    assert "epsilon" not in config.grpo.model_fields_set


def test_weights_on_the_command_line_replace_those_of_the_file(read, file: Path) -> None:
    config = read("run", file, "--sft.epochs", 1, "--rl.reward.weights", "win", 3)[0]
    assert config.rl.reward.weights == {"win": 3.0}


def test_an_option_leaves_the_other_defaults_of_its_section_alone(read, tmp_path: Path) -> None:
    (tmp_path / "dpo.toml").write_text('algorithm = "dpo"\n[dpo]\nrounds = 1\n')
    for given in ((), (tmp_path / "dpo.toml",)):
        ours = read("run", *given, "--rl.optimizer.warmup-steps", 3)[0].rl.optimizer
        assert ours == RunConfig().rl.optimizer.model_copy(update={"warmup_steps": 3})


def test_the_settings_that_a_run_stores_are_taken_with_options(read, file: Path, tmp_path: Path) -> None:
    stored = read("run", file, "--sft.epochs", 1)[0]
    path = tmp_path / "config.json"
    path.write_text(json.dumps(stored.stored()))
    assert read("run", path)[0] == stored
    assert read("run", "--seed", 5, path)[0] == stored.model_copy(update={"seed": 5})
    assert f"{path} and options: rl.reward: preset" in read("run", path, "--rl.reward.preset", "solver")[1]
    path.write_text(json.dumps({**stored.stored(), "older": 1}))
    assert f"{path}: unknown setting older" in read("run", path)[1]
    path.write_text(json.dumps(stored.stored()))
    assert str(path) not in read("run", path, "--seed", -1)[1], "the option is at fault"


def test_a_run_directory_is_named_for_its_config_file(monkeypatch, file: Path) -> None:
    asked = []
    monkeypatch.setattr(run, "run_chain", lambda _, out, *__: asked.append(out))
    assert main(["run", "--sft.epochs", "1", str(file)]) == 0
    assert main(["run"]) == 0
    assert asked == [Path("runs/half"), Path("runs/run")]


def test_help_shows_the_settings_of_the_file(capsys, tmp_path: Path, word_directory: Path) -> None:
    path = write_config(tmp_path / "mini.toml", word_directory, sft__batch_size="77", eval__regret="false")
    for arguments in (["run", str(path), "--help"], ["run", "-h", "--seed", "3", str(path)]):
        with pytest.raises(SystemExit) as done:
            main(arguments)
        assert done.value.code == 0
        shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
        assert "(default: 77)" in shown
        assert "--eval.regret " in shown
    with pytest.raises(SystemExit):
        main(["run", "--help", "--seed"])
    shown = capsys.readouterr().out
    assert "(default: 77)" not in shown
    assert "--eval.no-regret" in shown
    assert main(["run", str(tmp_path / "nowhere.toml"), "--help"]) == 2


def test_options_have_the_names_types_and_defaults_of_the_settings() -> None:
    def compare(options: object, settings: BaseModel) -> None:
        fields = type(settings).model_fields
        assert list(options.__dataclass_fields__) == list(fields)
        for name in fields:
            ours, theirs = getattr(options, name), getattr(settings, name)
            if isinstance(theirs, BaseModel):
                compare(ours, theirs)
            else:
                assert (ours, type(ours)) == (theirs, type(theirs))

    compare(options_of(RunConfig)(), RunConfig())
    assert options_of(RunConfig)().rl.reward.weights is not options_of(RunConfig)().rl.reward.weights
