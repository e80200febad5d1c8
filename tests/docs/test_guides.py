"""Laws of the guides: every command runs on small models, and the settings and files that they name exist.

Commands run as they are written, in one directory per guide, but hub names are directories of small random models, the
address of a server is a small server of this test, and `SMALLER` is appended. What cannot run here is in `NOT_RUN`.
"""

import inspect
import re
import runpy
import shlex
import shutil
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path

import pytest
from accelerate.commands.launch import launch_command_parser
from fake_endpoint import chat
from pages import blocks
from small_clone import Workspace, stock
from torch.distributed.run import get_args_parser as torchrun_parser

from wordle_rl.cli import main, run
from wordle_rl.config.files import PRESETS_DIRECTORY

ROOT = Path(__file__).resolve().parents[2]
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
SERVER = "http://127.0.0.1:8000/v1"

QUICK = {"memory"}
"""Guides whose commands run in the quick tests; those of the others, which train again and again, are `slow`."""

ELSEWHERE = {"mac": "tests/docs/test_guides_mac.py", "containers": "tests/repository/test_containers.py"}
"""Guides whose commands need another environment or an engine of containers -> the tests that run or read them."""

NOT_RUN = {
    "python3 -m venv": "makes an environment",
    ".": "changes the shell it runs in",
    "pip install": "needs a network",
    "hf download": "needs a network; its options exist, and a small model takes the place of what it would bring",
    "transformers serve": "runs until it is stopped; its options exist, and evaluate/test_players starts it",
    "torchrun": "needs eight GPUs; read by the parser of torchrun, and what it starts runs in one process",
    "accelerate launch": "needs eight GPUs; read by the parser of accelerate, and what it starts runs in one process",
    "python scripts/gpu_check.py": "needs a GPU; tests/scripts runs all of it with --small",
    "make": "makes an environment; the wordle-rl commands of its target run",
    "vf-eval": "needs the packages of other trainers, where test_verifiers runs it",
    "openenv validate": "run by serve/test_validation",
    "python environments/openenv/validation/local.py": "run by serve/test_validation",
}
"""Beginning of a command -> why it is not run as it is."""


def commands_of(path: Path) -> list[str]:
    """All lines of its bash blocks, continuation lines joined."""
    lines = "\n".join(blocks(path, "bash")).replace("\\\n", " ").splitlines()
    return [" ".join(line.split()) for line in lines if line.strip()]


def run_command(workspace: Workspace, command: str) -> None:
    """Run a command, or check what can be checked of it; one of unknown kind is an error."""
    words = shlex.split(command.replace(SERVER, workspace.endpoint))
    variables = list(takewhile(lambda word: re.fullmatch(r"[A-Z_]+=\w+", word), words))
    assert {variable.split("=")[0] for variable in variables} <= {"OMP_WAIT_POLICY", "OMP_NUM_THREADS"}
    program, *arguments = words[len(variables) :]
    if program == "wordle-rl":
        workspace.wordle_rl(arguments)
    elif program == "python" and arguments[0] == "-c":
        exec(compile(arguments[1], command, "exec"), {})
    elif command == "python scripts/memory_table.py":
        runpy.run_path(str(ROOT / "scripts" / "memory_table.py"), run_name="__main__")
    else:
        (kind,) = [kind for kind in NOT_RUN if f"{command} ".startswith(f"{kind} ")]
        check(workspace, kind, arguments)


def check(workspace: Workspace, kind: str, arguments: list[str]) -> None:
    if kind == "torchrun":
        given = torchrun_parser().parse_args(arguments)
        assert (given.nproc_per_node, given.module, given.training_script) == ("8", True, "wordle_rl")
        workspace.wordle_rl(given.training_script_args)
    if kind == "accelerate launch":
        given = launch_command_parser().parse_args(arguments[1:])
        assert (given.num_processes, given.module, given.training_script) == (8, True, "wordle_rl")
        assert Path(given.config_file).is_file()
        workspace.wordle_rl(given.training_script_args)
    if kind == "make":
        makefile = (ROOT / "Makefile").read_text()
        (target,) = re.findall(rf"^{arguments[0]}:.*\n((?:\t.*\n)+)", makefile, flags=re.MULTILINE)
        for line in target.splitlines():
            run_command(workspace, line.strip().removeprefix("$(BIN)/"))
    if kind == "transformers serve":
        from transformers.cli.serve import Serve

        check_options(Serve.__init__, arguments)
        assert Path(arguments[1]).is_dir()
    if kind == "hf download":
        from huggingface_hub.cli.download import download

        check_options(download, arguments)
        shutil.copytree(arguments[1], arguments[arguments.index("--local-dir") + 1])


def check_options(function: Callable, arguments: list[str]) -> None:
    """Every option is one of the function that a program calls with them."""
    options = {argument.removeprefix("--").replace("-", "_") for argument in arguments if argument.startswith("--")}
    assert options
    assert options <= set(inspect.signature(function).parameters)


@pytest.mark.parametrize(
    "guide",
    [pytest.param(path, id=path.stem, marks=[] if path.stem in QUICK else [pytest.mark.slow]) for path in GUIDES],
)
def test_every_command_of_a_guide_runs(guide, word_directory, split, serve, cli, tmp_path, monkeypatch) -> None:
    if guide.stem in ELSEWHERE:
        pytest.skip(f"see {ELSEWHERE[guide.stem]}")
    endpoint = serve(lambda *_: chat(f"<guess>{split.train[0]}</guess>", usage=(100, 10)))
    monkeypatch.chdir(tmp_path)
    stock(tmp_path)
    workspace = Workspace(word_directory, endpoint.url, cli, monkeypatch)
    for text in blocks(guide, "toml"):
        (tmp_path / text.splitlines()[0].removeprefix("# ")).write_text(text)
    found = commands_of(guide)
    assert found
    for command in found:
        run_command(workspace, command)


EIGHT_GPUS = ROOT / "docs" / "guides" / "eight-gpus.md"


def split_variables(command: str) -> tuple[dict[str, str], list[str]]:
    """The variables set before a command, and its words."""
    words = shlex.split(command)
    given = list(takewhile(lambda word: "=" in word and word.split("=")[0].isupper(), words))
    return dict(word.split("=", 1) for word in given), words[len(given) :]


@pytest.mark.parametrize("ahead", [0, 1])
def test_the_commands_of_a_server_that_plays_go_together(ahead: int, tmp_path, monkeypatch) -> None:
    (text,) = blocks(EIGHT_GPUS, "sh")
    (_, sft), (player, serve), (trainer, launch) = map(split_variables, text.replace("\\\n", " ").splitlines())
    for command in (sft, launch):
        command += ["--grpo.batches-ahead", str(ahead)]
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    shutil.copy(PRESETS_DIRECTORY / "qwen3-1.7b.toml", tmp_path / "CONFIG.toml")
    monkeypatch.chdir(tmp_path)
    asked = []
    monkeypatch.setattr(run, "run_chain", lambda config, out, *_: asked.append((config, out)))
    launched = launch_command_parser().parse_args(launch[2:])
    assert (launched.module, launched.training_script) == (True, "wordle_rl")
    assert Path(launched.config_file).is_file()
    assert [main(words) for words in (sft[1:], launched.training_script_args)] == [0, 0]
    (first, _), (second, out) = asked
    assert first == second, "a run directory has one set of settings"
    assert second.grpo.server == "http://localhost:8000"
    assert second.grpo.batches_ahead == ahead

    assert serve[:2] == ["scripts/vllm_server.sh", f"{out}/sft"]
    assert "${PORT:-8000}" in (ROOT / serve[0]).read_text()
    places = [variables["CUDA_VISIBLE_DEVICES"].split(",") for variables in (player, trainer)]
    assert not set(places[0]) & set(places[1])
    assert [len(place) for place in places] == [
        int(serve[serve.index("--tensor-parallel-size") + 1]), launched.num_processes,
    ]  # fmt: skip
