"""A wrong input on the command line is one line, exit code 2, and nothing half-written."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from training_fixtures import write_config

PROGRAM = [sys.executable, "-m", "wordle_rl.cli"]

RUN = "run {here}/mini.toml --out {here}/out"
BAD = {
    "missing model": ("eval --player {here}/nowhere", "nowhere"),
    "human to evaluate": ("eval --player human", "human for `wordle-rl play` alone"),
    "missing model to play": (
        "play --player {here}/nowhere",
        "solver, consistent, random and openai:MODEL",
    ),
    "empty model directory": ("eval --player {here}/empty", "holds no trained model"),
    "truncated model": ("eval --player {here}/truncated", "model.safetensors is damaged"),
    "bad model config": ("eval --player {here}/garbled", "cannot load a model"),
    "run to train": (
        RUN + " --model.path {run}",
        "{run} is a run directory, not a model; name its trained model, {run}/grpo",
    ),
    "run without a model to train": (RUN + " --model.path {here}/untrained", "train one in it, or name another"),
    "missing TOML": ("run {here}/nowhere.toml", "no config file"),
    "wrong TOML key": ("run {here}/misspelt.toml --out {here}/out", "grpo.groupsize (did you mean grpo.group_size?)"),
    "report of an earlier development version": ("report {here}/older", "older/config.json"),
    "player of an earlier development version": ("eval --player {here}/older", "older/config.json"),
    "run of an earlier development version": ("run {here}/mini.toml --out {here}/older", "older/config.json"),
    "settings of an earlier development version": (
        "run {here}/older/config.json --out {here}/out",
        "unknown setting grpo.max_given",
    ),
    "unknown flag": (RUN + " --nosuch 3", "error: unrecognized options: --nosuch"),
    "no number": (RUN + " --seed abc", "error: seed: "),
    "no value": (RUN + " --sft.epochs", "error: --sft.epochs has no value"),
    "a stage for a command": (
        "sft {here}/mini.toml --out {here}/out",
        "--until sft",
    ),
    "unknown command": ("nosuch", "error: no command nosuch"),
    "rules with an unknown word to fill in": (
        "traces --out {here}/t.jsonl --teacher openai --model m --game.system-prompt {{tag}}",
        "system_prompt: unknown placeholder {{tag}}; use {{word_length}}, ",
    ),
    "misspelt flag": (RUN + " --rl.group-sise 4", "(did you mean --rl.group-size"),
    "directory as config": ("run {here} --out {here}/out", "is a directory; name a config file in it"),
    "seed beyond 32 bits of games": ("traces --out {here}/t.jsonl --seed 4294967296", "give 0 to 4294967295"),
    "seed beyond 64 bits of a game": (
        "play --player {run} --words {words} --seed 18446744073709551616",
        "give 0 to 4294967295",
    ),
    "empty split": ("eval --player solver --words {here}/lists", "2 answers cannot give"),
    "unreachable endpoint": ("eval --player openai:m --base-url http://127.0.0.1:9/v1", "no response from"),
    "address of no host": ("eval --player openai:m --base-url http://[::1", "http://[::1"),
    "run into a file": ("run {here}/mini.toml --out {here}/taken", "taken"),
    "traces below a file": ("traces --out {here}/taken/t.jsonl --num-games 5 --words {words}", "taken"),
    "overwrite what is no run": ("run {here}/mini.toml --out {here} --overwrite", "name another --out"),
    "a file for a run": ("run {here}/mini.toml --out {here}/mini.toml", "is a file, not a run directory; name another"),
    "unlisted secret": ("play --player solver --secret zzzzz", "zzzzz"),
    "no games to summarise": ("dataset {here}/none.jsonl", "none.jsonl holds no games"),
    "damaged traces": ("dataset {here}/bad.jsonl", "bad.jsonl:2"),
    "no opener to list": ("solve --top -1", "--top -1"),
    "fewer words than none": (
        "compare {run}/eval/sft.json {run}/eval/grpo.json --top -1",
        "--top -1",
    ),
    "damaged evaluation": ("compare {here}/bad.json {here}/bad.json", "bad.json is no evaluation"),
    "runs to compare": (
        "compare {run} {run}",
        "{run} is a directory; name an evaluation in it, such as {run}/eval/sft.json",
    ),
    "a text to analyze": (
        "dataset {here}/taken",
        "taken:1 is not JSON (Expecting value: line 1 column 1 (char 0))",
    ),
    "report of no run": ("report {here}/empty", "no part of a run"),
    "audit of no run": ("report {here}/empty --audit", "config.json"),
}


@pytest.fixture
def here(tmp_path: Path, finished_run: Path, word_directory: Path) -> Path:
    """A directory with something wrong in every corner."""
    write_config(tmp_path / "mini.toml", word_directory)
    write_config(tmp_path / "misspelt.toml", word_directory, grpo__groupsize="4")
    (tmp_path / "taken").write_text("mine")
    (tmp_path / "none.jsonl").touch()
    (tmp_path / "empty").mkdir()
    shutil.copytree(finished_run, tmp_path / "older")
    stored = json.loads((tmp_path / "older" / "config.json").read_text())
    stored["grpo"]["max_given"] = 2
    (tmp_path / "older" / "config.json").write_text(json.dumps(stored))
    (tmp_path / "lists").mkdir()
    (tmp_path / "untrained").mkdir()
    for name in ("config.json", "manifest.json"):
        shutil.copy(finished_run / name, tmp_path / "untrained")
    for name in ("answers.txt", "guesses.txt"):
        (tmp_path / "lists" / name).write_text("crane\ngrape\n")
    for name in ("truncated", "garbled"):
        shutil.copytree(finished_run / "sft", tmp_path / name)
    weights = (finished_run / "sft" / "model.safetensors").read_bytes()
    (tmp_path / "truncated" / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    (tmp_path / "garbled" / "config.json").write_text("{")
    (tmp_path / "bad.jsonl").write_text('{"secret": "crane", "turns": []}\n{"sec')
    (tmp_path / "bad.json").write_text("{}")
    return tmp_path


@pytest.mark.parametrize("case", BAD)
def test_a_wrong_input_is_one_line_exit_code_2_and_nothing_written(
    case: str, cli, here, finished_run, word_directory
) -> None:
    command, named = BAD[case]
    before = {path: path.stat().st_mtime_ns for path in here.rglob("*")}
    code, out, err = cli(*(part.format(here=here, run=finished_run, words=word_directory) for part in command.split()))
    assert code == 2, err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert named.format(here=here, run=finished_run) in err
    assert out == ""
    assert {path: path.stat().st_mtime_ns for path in here.rglob("*")} == before


@pytest.mark.parametrize(
    ("option", "command"),
    [
        ("--out", "run {here}/mini.toml"),
        ("--out", "export {run}"),
        ("--out", "traces --num-games 3"),
        ("--model.path", RUN),
        ("an argument", "report"),
    ],
)
def test_an_empty_value_is_refused_and_is_not_the_current_directory(
    option: str, command: str, cli, here, finished_run, monkeypatch
) -> None:
    shutil.copytree(finished_run, here / "there")
    monkeypatch.chdir(here / "there")
    before = {path: path.stat().st_mtime_ns for path in here.rglob("*")}
    given = command.format(here=here, run=finished_run).split()
    for empty in ([""],) if option == "an argument" else ([option, ""], [f"{option}="]):
        code, out, err = cli(*given, *empty)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith(f"error: {option} is empty")
    assert {path: path.stat().st_mtime_ns for path in here.rglob("*")} == before


def test_what_may_be_empty_is_taken(cli, word_directory, tmp_path: Path) -> None:
    run = ("run", write_config(tmp_path / "mini.toml", word_directory), "--out", tmp_path / "run", "--until", "traces")
    assert cli(*run, "--game.system-prompt", "")[0] == 0
    assert cli(*run, "--game.system_prompt=", "--overwrite")[0] == 0


def test_the_process_itself_ends_with_code_2_and_without_a_traceback(tmp_path: Path) -> None:
    done = subprocess.run(
        [*PROGRAM, "eval", "--player", str(tmp_path / "nowhere")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
