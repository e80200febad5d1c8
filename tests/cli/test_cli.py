"""Laws of the command line: help lists every setting, JSON is JSON, and a wrong input is one line and exit code 2."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

from training_fixtures import rows, write_config

from wordle_rl.cli import COMMANDS, main
from wordle_rl.cli.settings import USUAL
from wordle_rl.config import RunConfig, every_setting

PROGRAM = [sys.executable, "-m", "wordle_rl"]


def help_of(command: str, capsys) -> str:
    assert main([command, "--help"]) == 0
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
    assert main([command, "quickstart", "--help-all"]) == 0
    whole = capsys.readouterr().out
    for setting, *_ in every_setting(RunConfig()):
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
        ("trian", "wordle-rl run"),
        ("sft", "--until sft"),
        ("run quickstart --lr 1", "--rl.optimizer.learning-rate"),
        ("run quickstart --output_dir x", "--out"),
        ("run quickstart --sft.epoch 2", "--sft.epochs"),
        ("run quickstart --grpo.learning-rate 1", "--rl.optimizer.learning-rate"),
    ],
)
def test_what_people_type_from_elsewhere_is_told_what_it_is_here(typed: str, meant: str, cli) -> None:
    code, out, err = cli(*typed.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert meant in err.partition("did you mean")[2]


@pytest.mark.parametrize("arguments", ["['--help']", "['--version']", "['run', '--help']"])
def test_help_needs_no_tensors_and_no_pipeline(arguments: str) -> None:
    code = (
        "import sys; from wordle_rl.cli import main\n"
        f"assert main({arguments}) == 0\n"
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
    code, out, _ = cli("run", config, "--out", tmp_path / "run", "--json")
    assert code == 0
    assert set(json.loads(out)) == {"sft", "grpo", "seconds", "peak_memory_gib", "memory"}
    assert len([row for row in rows(tmp_path / "run" / "metrics.jsonl") if row["stage"] == "grpo"]) == 1


def test_a_run_is_named_after_its_model_and_the_time_on_request(cli, word_directory, tmp_path: Path) -> None:
    config = write_config(tmp_path / "mini.toml", word_directory)
    few = ("--until", "traces", "--traces.num-games", 7)
    code, _, err = cli("run", config, "--out", tmp_path / "{model}-{time}", *few)
    assert code == 0, err
    [run] = [path for path in tmp_path.iterdir() if path.is_dir() and path.name.startswith("tiny-2")]
    assert (run / "traces.jsonl").is_file()


@pytest.mark.slow
def test_ctrl_c_ends_with_130_and_leaves_a_checkpoint(word_directory, tmp_path: Path) -> None:
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
    assert 1 <= int(checkpoint.name.split("-")[1]) < 2800


def press(*_args: object, **_kwargs: object) -> str:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("run quickstart --out {here}/run", "the same command resumes"),
        ("run quickstart --out {here}/run --overwrite", "the same command without --overwrite resumes"),
        ("eval --player solver --out {here}/x.json", "the same command resumes"),
        ("eval --player solver", None),
        ("export a --out {here}/m", None),
    ],
)
def test_ctrl_c_promises_to_go_on_only_where_that_is_so(
    command: str, said: str | None, cli, monkeypatch, tmp_path: Path
) -> None:
    for place in ("run.run_chain", "eval.load_words", "traces.load_words", "report.find_model"):
        monkeypatch.setattr(f"wordle_rl.cli.{place}", press)
    code, out, err = cli(*command.format(here=tmp_path).split())
    assert (code, out) == (130, "")
    assert err.startswith("stopped")
    assert ("resumes" in err) == (said is not None)
    assert (said or "") in err


def test_a_human_is_asked_again_after_a_slip_and_may_name_the_secret_in_capitals(cli, monkeypatch) -> None:
    guesses = iter(["", "zzzzz", "", "slate", "Crane"])
    monkeypatch.setattr("wordle_rl.cli.play.Prompt.ask", lambda *_, **__: next(guesses))
    code, out, _ = cli("play", "--secret", "CRANE")
    assert (code, out.count("no guess in the reply") > 0, "well done: CRANE" in out) == (0, True, True)
    assert re.search(r"^ *2 +C +R +A +N +E", out, flags=re.MULTILINE)


def test_only_a_seed_has_the_same_game_played_again(cli) -> None:
    command = ("play", "--player", "random", "--secret", "crane")
    games = [cli(*command, *seed)[1] for seed in ((), (), (), (), ("--seed", 1), ("--seed", 1))]
    assert len(set(games[:4])) > 1
    assert games[4] == games[5]


def test_hard_mode_holds_for_a_player_that_does_not_know_it(cli, word_directory) -> None:
    command = ("play", "--words", word_directory, "--seed", 1)
    assert "leaves out a hint" not in cli(*command, "--player", "random")[1]
    assert "leaves out a hint" in cli(*command, "--player", "random", "--hard-mode")[1]
    assert cli(*command, "--player", "solver", "--hard-mode")[0] == 2
    assert cli(*command, "--player", "solver", "--dictionary", "app")[0] == 0
