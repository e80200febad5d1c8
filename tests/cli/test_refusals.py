"""A wrong input on the command line is one line, exit code 2, and nothing half-written."""

import json
import os
import shutil
from pathlib import Path

import pytest
from training_fixtures import write_config

RUN = "run {here}/mini.toml --out {here}/out"
BEGUN = "run {here}/whole/config.json --out {here}/whole"
DATASET = "dataset {here}/whole/traces.jsonl --words {words}"
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
    ("train", "wordle-rl run"),
    ("evaluate", "wordle-rl eval"),
    ("trian", "wordle-rl run"),
    ("sft", "--until sft"),
    ("run quickstart --lr 1", "--rl.optimizer.learning-rate"),
    ("run quickstart --output_dir x", "--out"),
    ("run quickstart --sft.epoch 2", "--sft.epochs"),
    ("run quickstart --grpo.learning-rate 1", "--rl.optimizer.learning-rate"),
    (RUN + " --grpo.nosuch 3", "grpo.nosuch"),
    (RUN + " --sft.epochs.more 3", "sft.epochs.more"),
    (RUN + " --grpo.interpolation-alphas [0.5", "grpo.interpolation-alphas"),
    (RUN + " --grpo 3", "grpo"),
    ("run {here} --out {here}/out", "{here}"),
    ("traces --out {here}/t.jsonl --seed 4294967296", "4294967295"),
    ("play --player {run} --words {words} --seed 18446744073709551616", "4294967295"),
    ("eval --player solver --words {here}/lists", "2 answers"),
    ("eval --player solver --hard-mode --words {words}", "hard mode"),
    ("eval --player solver --secrets {here}/nowhere.txt", "nowhere.txt"),
    ("eval --player solver --words {words} --dtype float32", "--dtype"),
    ("eval --player random --words {words} --max-minutes 1", "--max-minutes"),
    ("eval --player openai:m --base-url http://127.0.0.1:9/v1", "no response from"),
    ("eval --player openai:m --base-url http://[::1", "http://[::1"),
    ("run {here}/mini.toml --out {here}/taken", "taken"),
    ("traces --out {here}/taken/t.jsonl --num-games 5 --words {words}", "taken"),
    ("run {here}/mini.toml --out {here} --overwrite", "--out"),
    (BEGUN + " --seed 1", "--out"),
    (BEGUN + " --words.split-seed 1", "--out"),
    (BEGUN + " --overwrite --model.path no/such/model", "no/such/model"),
    (BEGUN + " --overwrite --traces.file {here}/whole/traces.jsonl", "--overwrite"),
    (BEGUN + " --overwrite --until dpo", "dpo"),
    ("run {here}/mini.toml --out {here}/truncated", "--out"),
    ("run {here}/mini.toml --out {here}/mini.toml", "mini.toml"),
    ("play --player solver --secret zzzzz", "zzzzz"),
    (DATASET + " --csv {here}/whole/traces.jsonl", "whole/traces.jsonl"),
    (DATASET + " --out {here}/set --max-turns 7", "--max-turns 7"),
    (DATASET + " --out {here}/set --max-turns 5 --game-turns 4", "--max-turns 5"),
    (DATASET + " --out {here}/set --game-turns 0", "--game-turns"),
    (DATASET + " --out {here}/set --starts-player foo", "--starts-player"),
    (DATASET + " --out {here}/set --starts-player teacher --max-prefix-guesses -1", "--max-prefix-guesses"),
    ("dataset {here}/none.jsonl", "none.jsonl"),
    ("dataset {here}/bad.jsonl", "bad.jsonl:2"),
    ("dataset {here}/taken", "taken:1"),
    ("compare {here}/bad.json {here}/bad.json", "bad.json"),
    ("compare {run} {run}", "{run}/eval/sft.json"),
    ("report {here}/empty", "empty"),
    ("report {here}/nowhere", "nowhere"),
    ("report {here}/nowhere --cards", "nowhere"),
    ("report {here}/truncated --cards", "truncated"),
    ("report {here}/empty --audit", "config.json"),
    ("power 60 60", "win rates"),
    ("power 60 170", "win rates"),
    ("rewards spars", "spars"),
    ("rewards missing.toml", "missing.toml"),
    ("rewards sparse --attack --secrets 0", "--secrets"),
    ("solve --entropies {here}/e.csv --tree", "--entropies"),
    ("solve --entropies {here}/taken --words {words}", "taken"),
    ("eval --player random --words {words} --max-games 2 --out /dev/full", "--out /dev/full"),
    ("eval --player random --words {words} --max-games 2 --csv=/dev/zero", "--csv /dev/zero"),
    ("compare {here}/pipe {here}/pipe", "{here}/pipe"),
    ("dataset {here}/pipe", "{here}/pipe"),
    ("play --player solver --words {here}/pipe", "{here}/pipe"),
    ("eval --player {here}/piped", "{here}/piped/more.safetensors"),
    ("run {here}/mini.toml --out {here}/pipe", "{here}/pipe"),
    (RUN + " --model.chat-template {here}/pipe", "{here}/pipe"),
    ("run {here}/piped.toml --out {here}/out", "model.chat_template"),
]
"""A command, and what its refusal names."""


@pytest.fixture
def here(tmp_path: Path, finished_run: Path, word_directory: Path) -> Path:
    """A directory with something wrong in every corner."""
    write_config(tmp_path / "mini.toml", word_directory)
    write_config(tmp_path / "misspelt.toml", word_directory, grpo__groupsize="4")
    for name in ("empty", "lists", "untrained"):
        (tmp_path / name).mkdir()
    for name in ("config.json", "manifest.json"):
        shutil.copy(finished_run / name, tmp_path / "untrained")
    for name in ("older", "whole"):
        shutil.copytree(finished_run, tmp_path / name)
    stored = json.loads((tmp_path / "older" / "config.json").read_text())
    stored["grpo"]["max_given"] = 2
    for name in ("truncated", "garbled", "piped"):
        shutil.copytree(finished_run / "sft", tmp_path / name)
    for name in ("pipe", "piped/more.safetensors"):
        os.mkfifo(tmp_path / name)
    write_config(tmp_path / "piped.toml", word_directory, model__chat_template=f'"{tmp_path / "pipe"}"')
    weights = tmp_path / "truncated" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    for name, text in {
        "taken": "mine",
        "none.jsonl": "",
        "older/config.json": json.dumps(stored),
        "lists/answers.txt": "crane\ngrape\n",
        "lists/guesses.txt": "crane\ngrape\n",
        "garbled/config.json": "{",
        "bad.jsonl": '{"secret": "crane", "turns": []}\n{"sec',
        "bad.json": "{}",
    }.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def times(directory: Path) -> dict[Path, int]:
    return {path: path.is_file() and path.stat().st_mtime_ns for path in directory.rglob("*")}


@pytest.mark.parametrize(("command", "named"), BAD)
def test_a_wrong_input_is_one_line_and_writes_nothing(command, named, cli, here, finished_run, word_directory) -> None:
    before = times(here)
    code, out, err = cli(*(part.format(here=here, run=finished_run, words=word_directory) for part in command.split()))
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert err.startswith("error: ")
    assert named.format(here=here, run=finished_run) in err
    assert times(here) == before


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
    assert cli(*command.split())[:2] == (2, "")


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
def test_an_empty_value_is_not_the_current_directory(option, command, cli, here, finished_run, monkeypatch) -> None:
    monkeypatch.chdir(here / "older")
    before = times(here)
    given = command.format(here=here, run=finished_run).split()
    for empty in ([""],) if option == "an argument" else ([option, ""], [f"{option}="]):
        code, out, err = cli(*given, *empty)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert option in err
    assert times(here) == before


def test_what_may_be_empty_is_taken(cli, word_directory, tmp_path: Path) -> None:
    run = ("run", write_config(tmp_path / "mini.toml", word_directory), "--out", tmp_path / "run", "--until", "traces")
    assert cli(*run, "--game.system-prompt", "")[0] == 0
    assert cli(*run, "--game.system_prompt=", "--overwrite")[0] == 0
