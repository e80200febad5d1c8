"""A wrong input on the command line is one line, exit code 2, and nothing half-written."""

import io
import json
import os
import shutil
import sys
from pathlib import Path

import jinja2
import numpy as np
import pytest
import safetensors
import torch
from huggingface_hub.utils import validate_repo_id
from training_fixtures import write_config

from wordle_rl.cli import main
from wordle_rl.config.run import RunConfig

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
    (RUN + " --grpo.group-sise 4", "(did you mean --grpo.group-size"),
    (RUN + " --rl.group-size 4", "--grpo."),
    (RUN + " --algorithm dpo", "--stages"),
    (RUN + " --dpo.group-size 4", "dpo.group_size"),
    (RUN + " --grpo-2.steps 4", "grpo_2.steps"),
    (RUN + " --stages sft,ppo", "ppo"),
    (RUN + " --grpo.steps 0", "grpo.steps"),
    ("sft {here}/mini.toml --out {here}/out", "--until sft"),
    ("nosuch", "nosuch"),
    ("train", "wordle-rl run"),
    ("evaluate", "wordle-rl eval"),
    ("trian", "wordle-rl run"),
    ("sft", "--until sft"),
    ("run quickstart --lr 1", "--grpo.optimizer.learning-rate"),
    ("run quickstart --output_dir x", "--out"),
    ("run quickstart --sft.epoch 2", "--sft.epochs"),
    ("run quickstart --grpo.learning-rate 1", "--grpo.optimizer.learning-rate"),
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
    ("run {here}/mini.toml --out {here}/{{seed}}", "{{seed}}"),
    (DATASET + " --out {here}/{{model}}", "{{model}}"),
    ("traces --out {here}/taken/t.jsonl --num-games 5 --words {words}", "taken"),
    ("run {here}/mini.toml --out {here} --overwrite", "--out"),
    (BEGUN + " --seed 1", "--out"),
    (BEGUN + " --words.split-seed 1", "--out"),
    (BEGUN + " --overwrite --model.path no/such/model", "no/such/model"),
    (BEGUN + " --overwrite --traces.file {here}/whole/traces.jsonl", "--overwrite"),
    (BEGUN + " --overwrite --traces.file {here}/whole/traces.jsonl[:9]", "traces.file"),
    (BEGUN + " --overwrite --stages sft,distill --distill.targets {here}/whole/grpo", "distill.targets"),
    (BEGUN + " --overwrite --stages sft,distill --distill.targets {here}/whole", "distill.targets"),
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
    (f"{DATASET} --out {{here}}/set --shape spoken", "--shape"),
    ("dataset {here}/bad.jsonl", "bad.jsonl:2"),
    ("dataset {here}/taken", "taken:1"),
    ("compare {here}/bad.json {here}/bad.json", "bad.json"),
    ("compare {run}/eval {run}", "{run}/eval/sft.json"),
    ("compare {here}/empty {run}", "{here}/empty"),
    ("report {here}/empty", "empty"),
    ("report {here}/nowhere", "nowhere"),
    ("report {here}/nowhere --cards", "nowhere"),
    ("report {here}/bad.jsonl", "--plot"),
    ("report {here}/bad.jsonl --plot {here}/plot.svg", "bad.jsonl has no row with a step"),
    ("report {here}/taken --plot {here}/plot.svg", "taken"),
    ("report {here}/truncated --cards", "truncated"),
    ("report {here}/empty --audit", "config.json"),
    ("report {run} --cards --audit", "--cards and --audit"),
    ("report {run} --audit --control {run}", "--control"),
    ("report {run} --control {run}/eval/sft.json", "is no control"),
    ("report {run}/sft --cards --control {run}", "is no run"),
    ("compare {run} {run} --control {run}/eval/sft.json", "is no control"),
    ("compare {run} --reference --names a", "--names"),
    ("export {run} --out {here}/out --dry-run", "--dry-run"),
    ("export {run} --repo a/b --dtype bfloat16", "--repo"),
    ("play --player solver --words {words} --reward dense", "--verbose"),
    ("eval --player random --words {words} --engine vllm", "--engine vllm"),
    ("eval --player random --words {words} --base-url http://127.0.0.1:9/v1", "--base-url"),
    ("eval --player solver --words {words} --style spelled --thinking required", "thinking"),
    (DATASET + " --out {here}/set --csv {here}/set.csv", "--csv"),
    (DATASET + " --out {here}/set --max-prefix-guesses 2", "--starts-player"),
    ("preflight quickstart --groups 0 --memory-gib 0", "--memory-gib 0"),
    ("power 60 60", "win rates 60 and 60"),
    ("power 60 170", "win rates 60 and 170"),
    ("power -5 20", "win rates -5 and 20"),
    ("power nan 20", "--rates"),
    ("power 60 70 --alpha inf", "--alpha"),
    ("run quickstart --sft.optimizer.learning-rate inf --out {here}/out", "sft.optimizer.learning_rate"),
    ("run quickstart --report-to bogus --out {here}/out", "report_to 'bogus'"),
    ("eval --player solver --temperature nan", "--temperature"),
    ("play --player {run} --temperature -1 --words {words}", "temperature"),
    ("eval --player solver --max-completion-tokens -3", "max_completion_tokens"),
    ("eval --player .hidden/x", ".hidden/x"),
    ("traces --out {here}/t.jsonl --teacher nosuch", "'nosuch'"),
    ("traces --out {here}/t.jsonl --teacher nosuch:thing", "'nosuch:thing'"),
    ("traces --out {here}/empty --num-games 5 --words {words}", "{here}/empty"),
    ("traces --out /proc/t.jsonl --num-games 5 --words {words}", "cannot write /proc"),
    ("dataset {run}", "name {run}/traces.jsonl"),
    ("watch {run} --export {here}/taken/page.html", "taken/page.html"),
    ("watch {run} --export {here}", "{here}"),
    ("watch {run} --export /proc/nowhere/page.html", "/proc/nowhere"),
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


PATHS = (
    "run {path} --out {here}/out",
    "run quickstart --out {here}/out --traces.file {path}",
    "run quickstart --out {here}/out --stages sft,grpo --grpo.starts.file {path}",
    "run quickstart --out {here}/out --stages sft,grpo --grpo.validate-every-steps 1 --grpo.validation-file {path}",
    "run quickstart --out {here}/out --model.path {path}",
    "run quickstart --out {here}/out --model.chat-template {path}",
    "run quickstart --out {here}/out --words.source {path}",
    "traces --out {here}/t.jsonl --words {path}",
    "eval --player solver --secrets {path}",
    "eval --player {path}",
    "play --player {path}",
    "compare {path} {run}",
    "compare --reference {path}",
    "compare {run}/eval/sft.json {run}/eval/grpo.json --control {path}",
    "report {path}",
    "report {path} --audit",
    "report {path} --cards",
    "report {path} --wins {here}/wins.svg",
    "report {path} --plot {here}/plot.svg",
    "report {run} --control {path}",
    "dataset {path}",
    "dataset {path} --rows grpo --out {here}/rows.jsonl",
    "dataset {run}/traces.jsonl --words {words} --out {here}/set --format instruction --model {path}",
    "solve --words {path}",
    "export {path} --out {here}/model",
    "watch {path} --export {here}/page.html",
    "rewards {path}.toml",
)
"""A command for each option that reads a path."""


@pytest.mark.parametrize("path", ["{here}/nowhere", "{here}/empty", "/proc/self/mem"], ids=["missing", "dir", "unread"])
def test_a_path_that_cannot_be_read_is_one_line_that_names_it(path, cli, here, finished_run, word_directory) -> None:
    path, before = path.format(here=here), times(here)
    others = {}
    for command in PATHS:
        given = [part.format(path=path, here=here, run=finished_run, words=word_directory) for part in command.split()]
        code, out, err = cli(*given)
        if (code, out, err.count("\n")) != (2, "", 1) or path not in err:
            others[command] = (code, err)
    assert others == {}
    assert times(here) == before


OUTPUTS = (
    "traces --num-games 5 --words {words} --out {path}",
    "eval --player random --words {words} --out {path}",
    "report {run} --wins {path}",
    "report {run} --plot {path}",
    "dataset {run}/traces.jsonl --words {words} --format instruction --out {path}/set",
    "solve --words {words} --entropies {path}",
    "export {run} --out {path}",
    "watch {run} --export {path}",
    "run {here}/mini.toml --out {path}",
)


@pytest.mark.parametrize("path", ["{here}/taken/new", "/proc/new"])
def test_a_place_that_cannot_be_written_is_one_line_that_names_it(
    path, cli, here, finished_run, word_directory
) -> None:
    path, before = path.format(here=here), times(here)
    others = {}
    for command in OUTPUTS:
        given = [part.format(path=path, here=here, run=finished_run, words=word_directory) for part in command.split()]
        code, _, err = cli(*given)
        last = err.splitlines()[-1:]
        if code != 2 or not last or str(Path(path).parent) not in last[0]:
            others[command] = (code, err)
    assert others == {}
    assert times(here) == before


def edited(file: str, **changes: object):
    """Change entries of a model's JSON file."""

    def edit(model: Path) -> None:
        (model / file).write_text(json.dumps(json.loads((model / file).read_text()) | changes))

    return edit


def written(file: str, text: str):
    """Replace a model's file."""
    return lambda model: (model / file).write_text(text)


UNFIT_REGEX = {"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated", "invert": False}
UNFIT = {
    "config.json is null": written("config.json", "null"),
    "heads are text": edited("config.json", num_attention_heads="four"),
    "no key/value heads": edited("config.json", num_key_value_heads=0),
    "too many layers": edited("config.json", num_hidden_layers=10**5, layer_types=None),
    "its context is text": edited("config.json", max_position_embeddings="long"),
    "quantized by text": edited("config.json", quantization_config="x"),
    "no such type": edited("config.json", dtype="float99"),
    "a regex that is none": edited("tokenizer.json", pre_tokenizer=UNFIT_REGEX),
    "tokenizer.json is null": written("tokenizer.json", "null"),
    "generation_config.json is null": written("generation_config.json", "null"),
    "a template too long": written("chat_template.jinja", "{% for i in range(999999999) %}{% endfor %}"),
    "a template for tools": written("chat_template.jinja", "{% for tool in tools %}{% endfor %}"),
    "a template that divides": written("chat_template.jinja", "{{ 1 / 0 }}"),
}
"""Models that transformers cannot load; each ended in another library's error."""


@pytest.mark.parametrize("unfit", UNFIT)
def test_a_model_that_does_not_load_is_one_line_and_a_finding_of_preflight(
    unfit, cli, finished_run, word_directory, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    shutil.copytree(finished_run / "sft", model)
    UNFIT[unfit](model)
    code, out, err = cli("eval", model, "--words", word_directory)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    code, out, _ = cli("preflight", "quickstart", "--words.source", word_directory, "--model.path", model, "--json")
    assert code == 2
    assert "problem" in {finding["level"] for finding in json.loads(out)["findings"]}


FOREIGN = {
    "pydantic": lambda: RunConfig.model_validate({"seed": "x"}),
    "numpy": lambda: np.empty(2**55),
    "torch": lambda: torch.empty(2**55),
    "safetensors": lambda: safetensors.deserialize(b"\x09"),
    "hub": lambda: validate_repo_id(".hidden/x"),
    "jinja": lambda: jinja2.Template("{% for %}"),
    "a template": lambda: jinja2.Template("{{ 1 / 0 }}").render(),
    "text": lambda: "\ud800".encode(),
    "bytes": b"\xff".decode,
    "no name": lambda: Path("/proc/self/mem").read_bytes(),
    "a package": lambda: exec("from json import nosuch"),
}
BUGS = {
    ImportError: lambda: exec("from wordle_rl.cli import nosuch"),
    TypeError: lambda: len(3),
    KeyError: lambda: {}["x"],
    ValueError: lambda: int("x"),
}


@pytest.mark.parametrize("fault", FOREIGN)
def test_an_error_of_a_library_names_the_command_in_one_line(fault, cli, monkeypatch) -> None:
    monkeypatch.setattr("wordle_rl.cli.solve.load_words", lambda _: FOREIGN[fault]())
    code, out, err = cli("solve", "--words", "somewhere")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "solve --words somewhere" in err


@pytest.mark.parametrize("kind", BUGS)
def test_a_bug_keeps_its_traceback(kind, cli, monkeypatch) -> None:
    monkeypatch.setattr("wordle_rl.cli.solve.load_words", lambda _: BUGS[kind]())
    with pytest.raises(kind):
        cli("solve", "--words", "somewhere")


def test_a_current_directory_that_is_gone_is_named(cli, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    code, out, err = cli("run", "quickstart")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "current directory" in err


@pytest.mark.parametrize("closed", ["stdin", "stdout", "stderr"])
def test_a_closed_stream_is_an_empty_one(closed: str, monkeypatch) -> None:
    for command, code in (("solve --top 2 --json", 0), ("--help", 0), ("nosuch", 2), ("play", 130)):
        monkeypatch.setattr(sys, "stdin", io.StringIO())
        monkeypatch.setattr(sys, closed, None)
        assert main(command.split()) == code
        getattr(sys, closed).close()


@pytest.mark.parametrize("encoding", ["ascii", "iso-8859-1", "cp1252", "utf-16"])
def test_every_encoding_of_the_output_shows_boards_and_tables(
    encoding, finished_run, word_directory, tmp_path: Path, monkeypatch
) -> None:
    secret = (word_directory / "answers.txt").read_text().split()[0]
    (tmp_path / "odd.jsonl").write_text('{"secret": "\\ud800aaaa", "teacher": "\\ud800", "turns": []}\n')
    for command in (
        f"play --player solver --secret {secret} --words {word_directory}",
        f"play --player {finished_run} --secret {secret} --words {word_directory} --verbose",
        f"eval {finished_run} --words {word_directory} --split all",
        f"run {finished_run}/config.json --out {finished_run}",
        f"compare {finished_run}/eval/sft.json {finished_run} --json",
        f"dataset {tmp_path}/odd.jsonl",
    ):
        pages = {name: io.BytesIO() for name in ("stdout", "stderr")}
        with monkeypatch.context() as patched:
            for name, page in pages.items():
                patched.setattr(sys, name, io.TextIOWrapper(page, encoding=encoding, write_through=True))
            code = main(command.split())
            shown = pages["stdout"].getvalue().decode(encoding)
        assert code == 0, pages["stderr"].getvalue()
        if "--json" in command:
            json.loads(shown)
        if "--player solver" in command:
            assert "?" not in shown, "every sign of a board has a plain form"


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


@pytest.mark.parametrize("name", ["manifest.json", "eval/grpo.json"])
def test_a_pipe_in_the_place_of_a_record_is_named(name, finished_run, tmp_path, cli) -> None:
    run = Path(shutil.copytree(finished_run, tmp_path / "run"))
    (run / name).unlink()
    os.mkfifo(run / name)  # to open it would wait for ever
    code, _, err = cli("report", run, "--audit")
    assert (code, str(run / name) in err) == (2, True), err
