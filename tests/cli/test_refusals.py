"""A wrong input on the command line is one line, exit code 2, and nothing half-written."""

import json
import resource
import shutil
import signal
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
    "missing model to merge": (
        "export {here}/nowhere --out {here}/out",
        "no model or run directory '{here}/nowhere'; name what `wordle-rl run` wrote, or a model in it\n",
    ),
    "missing model to describe": (
        "report {here}/nowhere --cards",
        "name what `wordle-rl run` wrote, or a model in it\n",
    ),
    "missing model to push": (
        "export {here}/nowhere --repo a/b",
        "name what `wordle-rl run` wrote, or a model in it\n",
    ),
    "missing model to play": (
        "play --player {here}/nowhere",
        "solver, consistent, random and openai:MODEL",
    ),
    "empty model directory": ("eval --player {here}/empty", "holds no trained model"),
    "truncated model": ("eval --player {here}/truncated", "model.safetensors is damaged"),
    "bad model config": ("eval --player {here}/garbled", "cannot load a model"),
    "missing model to train": (RUN + " --model.path {here}/nowhere", "no model directory"),
    "empty model to train": (RUN + " --model.path {here}/empty", "no config.json"),
    "run to train": (
        RUN + " --model.path {run}",
        "{run} is a run directory, not a model; name its trained model, {run}/grpo",
    ),
    "run without a model to train": (RUN + " --model.path {here}/untrained", "train one in it, or name another"),
    "truncated model to train": (RUN + " --model.path {here}/truncated", "is damaged"),
    "missing TOML": ("run {here}/nowhere.toml", "no config file"),
    "wrong TOML key": ("run {here}/misspelt.toml --out {here}/out", "grpo.groupsize (did you mean grpo.group_size?)"),
    "group of one in TOML": ("run {here}/lonely.toml --out {here}/out", "rl.group_size 1 leaves no baseline"),
    "group of one": (RUN + " --rl.group-size 1", "rl.group_size 1 leaves no baseline"),
    "report of an earlier development version": ("report {here}/older", "older/config.json"),
    "card of an earlier development version": ("report {here}/older --cards", "older/config.json"),
    "audit of an earlier development version": ("report {here}/older --audit", "older/config.json"),
    "player of an earlier development version": ("eval --player {here}/older", "older/config.json"),
    "run of an earlier development version": ("run {here}/mini.toml --out {here}/older", "older/config.json"),
    "settings of an earlier development version": (
        "run {here}/older/config.json --out {here}/out",
        "unknown setting grpo.max_given",
    ),
    "unknown flag": (RUN + " --nosuch 3", "error: unrecognized options: --nosuch"),
    "misspelt setting": (
        RUN + " --grpo.groups-per-steps 4",
        "unknown setting --grpo.groups-per-steps (did you mean --grpo.groups-per-step",
    ),
    "unknown choice": (
        RUN + " --algorithm ppo",
        "error: algorithm: ",
    ),
    "no number": (RUN + " --seed abc", "error: seed: "),
    "no value": (RUN + " --sft.epochs", "error: --sft.epochs has no value"),
    "a stage for a command": (
        "sft {here}/mini.toml --out {here}/out",
        "--until sft",
    ),
    "two config files": ("run {here}/mini.toml --out {here}/out own.toml", "error: unrecognized options: own.toml"),
    "unknown flag of a smaller command": ("report {run} --nosuch 3", "error: unrecognized options: --nosuch"),
    "unknown command": ("nosuch", "error: no command nosuch"),
    "rules with an unknown word to fill in": (
        "traces --out {here}/t.jsonl --teacher openai --model m --game.system-prompt {{tag}}",
        "system_prompt: unknown placeholder {{tag}}; use {{word_length}}, ",
    ),
    "misspelt flag": (RUN + " --rl.group-sise 4", "(did you mean --rl.group-size"),
    "no turn left": (RUN + " --rl.starts.max-prefix-guesses 6", "leaves none of 6 turns"),
    "slips where nothing is unlisted": (RUN + " --traces.slip-rate 0.1 --game.dictionary lenient", "strict dictionary"),
    "rate out of range": (RUN + " --traces.slip-rate 2", "error: traces.slip_rate: Input should be less than 1"),
    "rate of a part out of range": (
        RUN + " --traces.teacher.noise-rate -1",
        "error: traces.teacher.noise_rate: Input should be greater than or equal to 0",
    ),
    "directory as config": ("run {here} --out {here}/out", "is a directory; name a config file in it"),
    "reply budget": (RUN + " --max-completion-tokens 3", "takes up to 8 tokens"),
    "context": (RUN + " --model.max-length 90", "the model takes 90"),
    "unknown reward": (RUN + " --rl.reward.preset gold", "'gold'"),
    "missing tracker": (RUN + " --report-to trackio", "pip install trackio"),
    "negative seed": (RUN + " --seed -1", "seed"),
    "seed beyond 32 bits": (RUN + " --seed 4294967296", "seed: Input should be less than or equal to 4294967295"),
    "seed beyond 32 bits of games": ("traces --out {here}/t.jsonl --seed 4294967296", "give 0 to 4294967295"),
    "seed beyond 64 bits of an evaluation": (
        "eval --player {run} --temperature 1 --out {here}/e.json --seed 18446744073709551616",
        "seed 18446744073709551616 is out of range; give 0 to 4294967295",
    ),
    "negative seed of an evaluation": ("eval --player random --seed -1", "seed -1 is out of range"),
    "seed beyond 64 bits of a game": (
        "play --player {run} --words {words} --seed 18446744073709551616",
        "give 0 to 4294967295",
    ),
    "empty split": ("eval --player solver --words {here}/lists", "2 answers cannot give"),
    "empty split to train": (RUN + " --words.source {here}/lists", "2 answers cannot give"),
    "unreachable endpoint": ("eval --player openai:m --base-url http://127.0.0.1:9/v1", "no response from"),
    "address of no host": ("eval --player openai:m --base-url http://[::1", "no address 'http://[::1'"),
    "run into a file": ("run {here}/mini.toml --out {here}/taken", "taken"),
    "traces below a file": ("traces --out {here}/taken/t.jsonl --num-games 5 --words {words}", "taken"),
    "dataset below a file": ("dataset {run}/traces.jsonl --out {here}/taken/s --words {words}", "taken"),
    "an opener of other words": (
        RUN + " --traces.teacher.opener zzzzz --until traces",
        "traces.teacher.opener 'zzzzz' is not in word list",
    ),
    "overwrite what is no run": ("run {here}/mini.toml --out {here} --overwrite", "name another --out"),
    "a file for a run": ("run {here}/mini.toml --out {here}/mini.toml", "is a file, not a run directory; name another"),
    "a run below a file": ("run {here}/mini.toml --out {here}/mini.toml/run", "choose another place"),
    "unknown words": ("solve --words klingon", "klingon"),
    "words of nobody": ("solve --words ~no-such-user/lists", "'~no-such-user/lists'"),
    "unlisted secret": ("play --player solver --secret zzzzz", "zzzzz"),
    "more games than can be counted": (
        RUN + " --traces.num-games 99999999999999999999",
        "error: traces.num_games: Input should be less than or equal to 100000000",
    ),
    "no games": ("traces --out {here}/out --num-games 0", "num_games"),
    "no games to summarise": ("dataset {here}/none.jsonl", "none.jsonl holds no games"),
    "no games for a dataset": ("dataset {here}/none.jsonl --out {here}/set", "none.jsonl holds no games"),
    "damaged traces": ("dataset {here}/bad.jsonl", "bad.jsonl:2"),
    "no opener to list": ("solve --top -1", "--top -1 lists no opener"),
    "fewer words than none": (
        "compare {run}/eval/sft.json {run}/eval/grpo.json --top -1",
        "give at least 1, or 0: none",
    ),
    "damaged evaluation": ("compare {here}/bad.json {here}/bad.json", "bad.json is no evaluation"),
    "runs to compare": (
        "compare {run} {run}",
        "{run} is a directory; name an evaluation in it, such as {run}/eval/sft.json",
    ),
    "a text to compare": ("compare {here}/taken {here}/taken", "name a file that `wordle-rl eval --out` wrote"),
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
    write_config(tmp_path / "lonely.toml", word_directory, grpo__group_size="1")
    (tmp_path / "own.toml").write_text("[grpo.reward]\nweights = { win = 1.0, format = 0.5 }")
    (tmp_path / "preset.toml").write_text("[grpo.reward]\npreset = 'solver'")
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
        ("--out", "run quickstart --traces.num-games 3"),
        ("--out", "export {run}"),
        ("--out", "eval --player random"),
        ("--csv", "eval --player random --system-prompt="),
        ("--player", "eval"),
        ("--out", "traces --num-games 3"),
        ("--words-file", "traces --out {here}/t.jsonl --teacher openai --model m"),
        ("--traces.file", RUN),
        ("--model.path", RUN),
        ("an argument", "report"),
        ("an argument", "compare {run}/eval/sft.json"),
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
        assert cli(*given, *empty) == (2, "", f"error: {option} is empty; give it a value\n")
    assert {path: path.stat().st_mtime_ns for path in here.rglob("*")} == before


def test_only_the_value_of_its_option_may_be_empty(cli, here) -> None:
    code, _, error = cli("eval", "--player", "solver", "--system-prompt", "text", "")
    assert (code, error) == (2, "error: an argument is empty; give it a value\n")


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


def nearly_full_disk() -> None:
    """Files may grow to 8 KiB and no further. Runs in the child."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))


@pytest.mark.slow
@pytest.mark.parametrize("until", ["traces", "sft"])
def test_a_full_disk_is_one_line_and_leaves_only_whole_files(
    until, finished_run, word_directory, tmp_path: Path
) -> None:
    config = write_config(tmp_path / "mini.toml", word_directory)
    run = tmp_path / "run"
    if until == "sft":
        shutil.copytree(finished_run, run, ignore=lambda *_: ["sft", "grpo", "eval", "results.json", "timings.json"])
    before = {path.name for path in run.glob("*")}
    done = subprocess.run(
        [*PROGRAM, "run", str(config), "--out", str(run), "--until", until],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=nearly_full_disk,
    )
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert "free space" in errors[0]
    assert not [path for path in run.rglob("*") if path.name.endswith((".partial", ".safetensors"))]
    logs = {"validation_traces.jsonl", "metrics.jsonl"}
    whole = {"config.json", "manifest.json", "timings.json", "sft"} | logs
    unfinished = [*run.glob(".traces.jsonl.*.unfinished")]  # whole games, to resume from
    for path in unfinished:
        assert all(json.loads(line) for line in path.read_text().splitlines()), "whole rows or none"
    assert {path.name for path in run.glob("*")} - before - {path.name for path in unfinished} <= whole
