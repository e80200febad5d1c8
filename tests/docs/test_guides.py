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
import torch
from accelerate.commands.launch import launch_command_parser
from chat_families import family_config, family_tokenizer
from fake_endpoint import chat
from pages import blocks
from shards import write_shards
from torch.distributed.run import get_args_parser as torchrun_parser
from transformers import AutoModelForCausalLM

from wordle_rl.chat.templates import training_template
from wordle_rl.cli import COMMANDS, main, run
from wordle_rl.cli.arguments import read
from wordle_rl.config.files import PRESETS_DIRECTORY
from wordle_rl.config.run import RunConfig

ROOT = Path(__file__).resolve().parents[2]
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
SERVER = "http://127.0.0.1:8000/v1"

QUICK = {"memory"}
"""Guides whose commands run in the quick tests; those of the others, which train again and again, are `slow`."""

HUB = {
    "Qwen/Qwen3-1.7B": "qwen3",
    "Qwen/Qwen3-4B": "qwen3",
    "USER/wordle-grpo-Qwen3-1.7B": "qwen3",
    "Qwen/Qwen2.5-0.5B-Instruct": "qwen2.5",
    "Qwen/Qwen2.5-1.5B-Instruct": "qwen2.5",
}
"""Hub name -> chat family of the small model in its place."""

_RUN = (
    "--traces.num-games 8 --model.micro-batch-size 4 --eval.max-games 1 --model.max-length 8192 "
    "--model.hidden-size 32 --model.num-layers 1"
)
SMALLER = {
    **dict.fromkeys(("run", "preflight"), f"{_RUN} --words.source {{words}} --traces.teacher.opener {{listed}}"),
    "eval": "--max-games 1 --max-completion-tokens 16 --no-regret --words {words}",
    "play": "--max-completion-tokens 16 --secret {listed} --words {words}",
    "traces": "--words {words}",
    "dataset": "--words {words}",
}
"""Command -> settings appended to it; a later setting counts more than an earlier one."""
STAGES = {
    "sft": "--sft.batch-size 8",
    "grpo": "--grpo.steps 1 --grpo.groups-per-step 1 --grpo.group-size 4 --grpo.max-refills 0",
    "expert_iteration": "--expert-iteration.rounds 1 --expert-iteration.groups-per-round 8",
}
"""Stage -> settings appended to the commands that have it."""

ELSEWHERE = {"mac": "tests/docs/test_guides_mac.py", "containers": "tests/repository/test_containers.py"}
"""Guides whose commands need another environment or an engine of containers -> the tests that run or read them."""

SERVING = {"serve", "watch"}  # run until they are stopped; their options are read

LONGEST = 128  # tokens of a reply where a command would allow more

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


class Workspace:
    """A directory like a clone of the repository, in which a guide's commands run one after the other."""

    def __init__(self, root: Path, words: Path, endpoint: str, cli: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.words, self.endpoint, self.cli, self.monkeypatch = root, words, endpoint, cli, monkeypatch
        shutil.copytree(ROOT / "scripts", root / "scripts")
        for name, family in HUB.items():
            make_model(root / name, family)
        monkeypatch.chdir(root)

    def run(self, command: str) -> None:
        """Run a command, or check what can be checked of it; one of unknown kind is an error."""
        words = shlex.split(command.replace(SERVER, self.endpoint))
        variables = list(takewhile(lambda word: re.fullmatch(r"[A-Z_]+=\w+", word), words))
        assert {variable.split("=")[0] for variable in variables} <= {"OMP_WAIT_POLICY", "OMP_NUM_THREADS"}
        program, *arguments = words[len(variables) :]
        if program == "wordle-rl":
            self.wordle_rl(arguments)
        elif program == "python" and arguments[0] == "-c":
            exec(compile(arguments[1], command, "exec"), {})
        elif command == "python scripts/memory_table.py":
            runpy.run_path(str(ROOT / "scripts" / "memory_table.py"), run_name="__main__")
        else:
            (kind,) = [kind for kind in NOT_RUN if f"{command} ".startswith(f"{kind} ")]
            self.check(kind, arguments)

    def wordle_rl(self, arguments: list[str]) -> None:
        name = arguments[0]
        if name in SERVING and "--export" not in arguments:
            read(COMMANDS[name].load(), f"wordle-rl {name}", arguments[1:])
            return
        added = self.smaller(name, arguments)
        if name in ("run", "preflight"):
            settings = self.settings(arguments)
            if settings.max_completion_tokens > LONGEST:
                added.append(f"--max-completion-tokens={LONGEST}")
            added += [word for stage in settings.stages for word in STAGES[stage].split()]
        if name == "export" and "checkpoint" in arguments[1]:
            make_shards(self.root / arguments[1])
        code, out, err = self.cli(*arguments, *added)
        assert code == 0, (arguments, err, out[-2000:])

    def smaller(self, name: str, arguments: list[str]) -> list[str]:
        listed = (self.words / "answers.txt").read_text().split()[0]
        added = SMALLER.get(name, "").format(words=self.words, listed=listed).split()
        if name == "traces":
            endpoint = ["--max-secrets", "2", "--provider", self.endpoint]
            added += endpoint if "openai" in arguments else ["--num-games", "24"]
        if name == "preflight" and "--groups 0" not in " ".join(arguments):
            added += ["--groups", "1"]
        return added

    def settings(self, arguments: list[str]) -> RunConfig:
        """What the command asks for as it is written, at full size; its settings must go together."""
        asked: list[RunConfig] = []
        with self.monkeypatch.context() as patch:
            patch.setattr(run, "run_chain", lambda config, *_: asked.append(config))
            patch.setattr(run, "look_at", lambda config, *_: asked.append(config))
            assert main(arguments) == 0, arguments
        assert len(asked) == 1
        path = asked[0].model.path
        assert path == "tiny" or (self.root / path).is_dir(), path
        return asked[0]

    def check(self, kind: str, arguments: list[str]) -> None:
        if kind == "torchrun":
            given = torchrun_parser().parse_args(arguments)
            assert (given.nproc_per_node, given.module, given.training_script) == ("8", True, "wordle_rl")
            self.wordle_rl(given.training_script_args)
        if kind == "accelerate launch":
            given = launch_command_parser().parse_args(arguments[1:])
            assert (given.num_processes, given.module, given.training_script) == (8, True, "wordle_rl")
            assert Path(given.config_file).is_file()
            self.wordle_rl(given.training_script_args)
        if kind == "make":
            makefile = (ROOT / "Makefile").read_text()
            (target,) = re.findall(rf"^{arguments[0]}:.*\n((?:\t.*\n)+)", makefile, flags=re.MULTILINE)
            for line in target.splitlines():
                self.run(line.strip().removeprefix("$(BIN)/"))
        if kind == "transformers serve":
            from transformers.cli.serve import Serve

            check_options(Serve.__init__, arguments)
            assert (self.root / arguments[1]).is_dir()
        if kind == "hf download":
            from huggingface_hub.cli.download import download

            check_options(download, arguments)
            shutil.copytree(self.root / arguments[1], arguments[arguments.index("--local-dir") + 1])


def check_options(function: Callable, arguments: list[str]) -> None:
    """Every option is one of the function that a program calls with them."""
    options = {argument.removeprefix("--").replace("-", "_") for argument in arguments if argument.startswith("--")}
    assert options
    assert options <= set(inspect.signature(function).parameters)


def make_model(directory: Path, family: str) -> None:
    """A small random model of a family, as the hub would give it."""
    tokenizer = family_tokenizer(family)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = family_config(family, len(tokenizer), num_hidden_layers=1, max_position_embeddings=16_384)
        AutoModelForCausalLM.from_config(config).save_pretrained(directory)
    tokenizer.save_pretrained(directory)


def make_shards(checkpoint: Path) -> None:
    """A checkpoint as FSDP leaves it: shards, config and tokenizer."""
    tokenizer = family_tokenizer("qwen3")
    tokenizer.chat_template = training_template(tokenizer, {})
    config = family_config("qwen3", len(tokenizer))
    checkpoint.mkdir(parents=True)
    config.save_pretrained(checkpoint)
    tokenizer.save_pretrained(checkpoint)
    write_shards(AutoModelForCausalLM.from_config(config).state_dict(), checkpoint)


@pytest.mark.parametrize(
    "guide",
    [pytest.param(path, id=path.stem, marks=[] if path.stem in QUICK else [pytest.mark.slow]) for path in GUIDES],
)
def test_every_command_of_a_guide_runs(guide, word_directory, split, serve, cli, tmp_path, monkeypatch) -> None:
    if guide.stem in ELSEWHERE:
        pytest.skip(f"see {ELSEWHERE[guide.stem]}")
    endpoint = serve(lambda *_: chat(f"<guess>{split.train[0]}</guess>", usage=(100, 10)))
    workspace = Workspace(tmp_path, word_directory, endpoint.url, cli, monkeypatch)
    for text in blocks(guide, "toml"):
        (tmp_path / text.splitlines()[0].removeprefix("# ")).write_text(text)
    found = commands_of(guide)
    assert found
    for command in found:
        workspace.run(command)


EIGHT_GPUS = ROOT / "docs" / "guides" / "eight-gpus.md"


def split_variables(command: str) -> tuple[dict[str, str], list[str]]:
    """The variables set before a command, and its words."""
    words = shlex.split(command)
    given = list(takewhile(lambda word: "=" in word and word.split("=")[0].isupper(), words))
    return dict(word.split("=", 1) for word in given), words[len(given) :]


@pytest.mark.parametrize("ahead", [0, 1])
def test_the_commands_of_a_server_that_plays_go_together(ahead: int, tmp_path, monkeypatch) -> None:
    (text,) = blocks(EIGHT_GPUS, "text")
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
    assert "--port 8000" in (ROOT / serve[0]).read_text()
    places = [variables["CUDA_VISIBLE_DEVICES"].split(",") for variables in (player, trainer)]
    assert not set(places[0]) & set(places[1])
    assert [len(place) for place in places] == [
        int(serve[serve.index("--tensor-parallel-size") + 1]), launched.num_processes,
    ]  # fmt: skip
