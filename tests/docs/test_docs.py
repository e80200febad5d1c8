"""Laws of the documents: what they tell people to type exists, and their example runs."""

import io
import re
import shlex
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path

import pytest
from group_games import Schedule
from markdown_blocks import blocks
from training_fixtures import small_model

from wordle_rl.boards import InitialState
from wordle_rl.cli import main
from wordle_rl.cli.settings import take_settings
from wordle_rl.config.files import load_config
from wordle_rl.config.run import RunConfig, every_setting
from wordle_rl.policy.loading import save_model
from wordle_rl.policy.scripted import OwnSampler
from wordle_rl.reward import Rubric
from wordle_rl.rollout import play
from wordle_rl.runs import Run
from wordle_rl.solver import Solver
from wordle_rl.train.advantages import find_credit
from wordle_rl.trainers.check import examine_trainer
from wordle_rl.words import load_words
from wordle_rl.words.split import split_secrets

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "docs" / "library.md"
DOCUMENTS = [
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG", "benchmarks/README")),
    *(ROOT / "docs").rglob("*.md"),
]


def commands_in(path: Path) -> list[str]:
    """Every `wordle-rl …` a document shows, continuation lines joined."""
    text = path.read_text(encoding="utf-8")
    lines = "\n".join(blocks(path, "bash")).replace("\\\n", " ").splitlines()
    shown = [line.strip() for line in lines if line.strip().startswith("wordle-rl ")]
    return shown + re.findall(r"`(wordle-rl [^`\n]+)`", text)


COMMANDS = sorted({command for path in DOCUMENTS for command in commands_in(path)})


@cache
def help_of(name: str) -> str:
    with redirect_stdout(io.StringIO()) as printed:
        assert main([name, "--help-all" if name in ("run", "preflight") else "--help"]) == 0
    return printed.getvalue()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_and_option_shown_exists_and_settings_go_together(command: str) -> None:
    name, *arguments = shlex.split(command)[1:]
    if name.startswith("--") or name.isupper():
        return
    described = help_of(name)
    options = [argument.split("=")[0] for argument in arguments if argument.startswith("--")]
    for option in options:
        if "." not in option and name != "run":
            assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", described), option
    if name in ("run", "preflight"):
        overrides, own = take_settings(arguments)
        preset = next((word for word in own if not word.startswith("-")), "")
        if preset and not preset.endswith(".toml") and not preset.isupper():
            load_config(preset, overrides)


def test_settings_that_a_document_names_exist() -> None:
    setting = re.compile(rf"`((?:{'|'.join(RunConfig.model_fields)})(?:\.(?!(?:py|toml|jsonl?)`)[a-z_0-9]+)+)`")
    known = {".".join(names[:depth]) for names, *_ in every_setting(RunConfig()) for depth in range(1, len(names) + 1)}
    for path in (ROOT / "docs").rglob("*.md"):
        assert set(setting.findall(path.read_text(encoding="utf-8"))) <= known, path.name


def test_the_blocks_of_the_library_page_run_and_train(tokenizer, codec, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    run = Run.create(Path("runs/quickstart"), RunConfig(max_completion_tokens=12), split_secrets(load_words()))
    model = small_model(tokenizer)
    save_model(model, codec, run.directory / "sft")
    # An untrained model never wins, so a reward of the replies' length makes the games of a group differ.
    names: dict[str, object] = {"paying": Schedule(lambda _, turn: len(turn.reply) % 5 / 4).rubric(None)}
    for block in blocks(LIBRARY, "python"):
        exec(block.replace('rubric, rows = PRESETS["solver"], []', "rubric, rows = paying, []"), names)
    assert "0 of 32 won" in capsys.readouterr().out
    after = dict(names["opened"].model.named_parameters())
    assert any((after[name] != weight).any() for name, weight in model.named_parameters())


def test_the_code_of_the_library_page_is_found_by_its_settings(tmp_path, monkeypatch) -> None:
    (tmp_path / "my_pkg").mkdir()
    for block in blocks(LIBRARY, "python"):
        if named := re.match(r"# (my_pkg/\w+\.py)\n", block):
            (tmp_path / named[1]).write_text(block)
    monkeypatch.syspath_prepend(tmp_path)
    for settings in blocks(LIBRARY, "toml"):
        (tmp_path / "shown.toml").write_text(settings)
        load_config(tmp_path / "shown.toml")
    words = load_words()
    prompter = load_config(tmp_path / "shown.toml", {("game", "style"): "my_pkg.style:German"}).game.prompter(5)
    player = OwnSampler("my_pkg.players:Alphabet", "player", words, prompter)
    [game] = play([InitialState("abbey")], words, prompter, player)
    rubric = Rubric({"my_pkg.rewards:vowels": 1.0}, keep_order=False)
    assert 0 < rubric.score(game.transcript, Solver(words)).total < 1
    assert find_credit("my_pkg.credit:leave_one_out")([(1.0, 0.0), (0.0,)]) == [(1.0, 1.0), (-1.0,)]


def test_the_readme_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = blocks(ROOT / "README.md", "python")
    exec(example, {})
    assert capsys.readouterr().out.rstrip().endswith("5")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


def test_the_adapter_of_the_conformance_page_passes() -> None:
    (adapter,) = blocks(ROOT / "docs" / "conformance.md", "python")
    found: dict = {}
    exec(adapter, found)
    assert {each.status for each in examine_trainer(found["adapter"])} == {"pass", "skip"}
