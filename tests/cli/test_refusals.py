"""A wrong input on the command line is one line, exit code 2, and nothing half-written."""

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch")

from training_fixtures import write_config

RUN = "run {here}/mini.toml --out {here}/out"
BAD = [
    ("eval --player {here}/nowhere", "nowhere"),
    ("eval --player human", "human"),
    ("eval {here}/nowhere", "nowhere"),
    ("play --player {here}/nowhere", "nowhere"),
    ("eval --player {here}/empty", "empty"),
    ("eval --player {here}/truncated", "model.safetensors"),
    ("eval --player {here}/garbled", "garbled"),
    (RUN + " --model.path {run}", "{run}/grpo"),
    (RUN + " --model.path {here}/untrained", "untrained"),
    ("run {here}/nowhere.toml", "nowhere.toml"),
    ("run {here}/misspelt.toml --out {here}/out", "grpo.groupsize (did you mean grpo.group_size?)"),
    ("report {here}/older", "older/config.json"),
    ("eval --player {here}/older", "older/config.json"),
    ("run {here}/mini.toml --out {here}/older", "older/config.json"),
    ("run {here}/older/config.json --out {here}/out", "grpo.max_given"),
    (RUN + " --seed abc", "seed: "),
    (RUN + " --sft.epochs", "--sft.epochs"),
    (RUN + " --rl.group-sise 4", "(did you mean --rl.group-size"),
    ("sft {here}/mini.toml --out {here}/out", "--until sft"),
    ("nosuch", "nosuch"),
    ("run {here} --out {here}/out", "{here}"),
    ("traces --out {here}/t.jsonl --seed 4294967296", "4294967295"),
    ("play --player {run} --words {words} --seed 18446744073709551616", "4294967295"),
    ("eval --player solver --words {here}/lists", "2 answers"),
    ("eval --player solver --hard-mode --words {words}", "hard mode"),
    ("eval --player openai:m --base-url http://127.0.0.1:9/v1", "no response from"),
    ("eval --player openai:m --base-url http://[::1", "http://[::1"),
    ("run {here}/mini.toml --out {here}/taken", "taken"),
    ("traces --out {here}/taken/t.jsonl --num-games 5 --words {words}", "taken"),
    ("run {here}/mini.toml --out {here} --overwrite", "--out"),
    ("run {here}/mini.toml --out {here}/mini.toml", "mini.toml"),
    ("play --player solver --secret zzzzz", "zzzzz"),
    ("dataset {here}/none.jsonl", "none.jsonl"),
    ("dataset {here}/bad.jsonl", "bad.jsonl:2"),
    ("dataset {here}/taken", "taken:1"),
    ("compare {here}/bad.json {here}/bad.json", "bad.json"),
    ("compare {run} {run}", "{run}/eval/sft.json"),
    ("report {here}/empty", "empty"),
    ("report {here}/empty --audit", "config.json"),
    ("power 60 60", "win rates"),
    ("power 60 170", "win rates"),
    ("rewards spars", "spars"),
    ("rewards missing.toml", "missing.toml"),
    ("rewards sparse --attack --secrets 0", "--secrets"),
    ("solve --entropies {here}/e.csv --tree", "--entropies"),
    ("solve --entropies {here}/taken --words {words}", "taken"),
]
"""A command, and what its refusal names."""


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


@pytest.mark.parametrize(("command", "named"), BAD)
def test_a_wrong_input_is_one_line_exit_code_2_and_nothing_written(
    command: str, named: str, cli, here, finished_run, word_directory
) -> None:
    before = {path: path.stat().st_mtime_ns for path in here.rglob("*")}
    code, out, err = cli(*(part.format(here=here, run=finished_run, words=word_directory) for part in command.split()))
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert err.startswith("error: ")
    assert named.format(here=here, run=finished_run) in err
    assert {path: path.stat().st_mtime_ns for path in here.rglob("*")} == before


@pytest.mark.parametrize(
    "command",
    [
        "run quickstart --nosuch 3",
        "eval --player solver --max-gamez 3",
        "power 60",
        "traces --out t.jsonl --teacher openai --model m --game.system-prompt {tag}",
    ],
)
def test_an_option_that_does_not_exist_or_is_missing_ends_with_code_2(command: str, cli) -> None:
    code, out, err = cli(*command.split())
    assert (code, out) == (2, "")
    assert err


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
