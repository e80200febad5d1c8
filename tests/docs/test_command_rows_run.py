"""Laws of the tables of commands: what a row of `coming-from` or `commands` has to type does what it is for.

Commands run as they are written, each row in a directory of its own, where `PLACEHOLDERS` stand for what a reader has.
Models and word lists are small; servers, the hub and trackers are stand-ins of this machine. Settings are laid over the
first fitting preset and checked by preflight, without games.
"""

import io
import json
import os
import re
import runpy
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import huggingface_hub
import pytest
from chat_families import family_config, family_tokenizer, split_as_published
from command_rows import PAGES, ROOT, Row, Step, rows_of, steps_of
from fake_endpoint import chat
from fake_hub import open_hub
from fake_trackers import fake_trackio, fake_wandb  # noqa: F401  # fixtures, two of them
from pages import blocks
from small_clone import HUB, Workspace, make_shards, stock
from torch.distributed.run import get_args_parser as torchrun_parser
from transformers import AutoModelForCausalLM

from wordle_rl.chat.templates import training_template
from wordle_rl.cli import COMMANDS, main
from wordle_rl.cli.arguments import read, take_settings
from wordle_rl.cli.run import look_at
from wordle_rl.config.base import ConfigError
from wordle_rl.config.files import load_config
from wordle_rl.config.run import RunConfig
from wordle_rl.mlx import check_settings as check_mlx
from wordle_rl.serve import commands as serving
from wordle_rl.trainers.verl.__main__ import main as verl

ROWS = [row for page in PAGES for row in rows_of(page)]

FITTING = ("quickstart", "qwen3-1.7b", "qwen2.5-1.5b-lora")
"""Presets to lay settings over."""


def words_csv(path: Path, words: Path) -> None:
    path.write_text("word\n" + (words / "answers.txt").read_text())


def rows_elsewhere(path: Path, words: Path) -> None:
    """Rows in the form of predibase/wordle-grpo."""
    secret, guess = (words / "answers.txt").read_text().split()[:2]
    path.write_text(f"prompt,word_list,past_guess_history,secret\nplay,words.csv,\"[['{guess}', '']]\",{secret}\n")


def config(path: Path, words: Path) -> None:
    """Settings that our trainers, verl and MLX follow."""
    sections = '[grpo]\ngroups_per_step = 32\n[model]\npath = "Qwen/Qwen3-1.7B"\n[traces]\nnum_games = 64\n'
    path.write_text(f"max_completion_tokens = 64\n{sections}")


def adapter(path: Path, words: Path) -> None:
    (text,) = blocks(ROOT / "docs" / "conformance.md", "python")
    path.mkdir()
    (path / "adapter.py").write_text(text)


def qwen3(path: Path, words: Path) -> None:
    """A small model whose tokenizer splits text as Qwen3's does."""
    tokenizer = split_as_published(family_tokenizer("qwen3"), "qwen3")
    tokenizer.chat_template = training_template(tokenizer)
    AutoModelForCausalLM.from_config(family_config("qwen3", len(tokenizer))).save_pretrained(path)
    tokenizer.save_pretrained(path)


Maker = Callable[[Path, Path], object]
PLACEHOLDERS: dict[str, str | tuple[str, str] | Maker] = {
    "runs/quickstart": "wordle-rl run quickstart --out runs/quickstart",
    "runs/sft-alone": "wordle-rl run quickstart --out runs/sft-alone --stages sft",
    "--player RUN": "runs/quickstart",
    "report RUN": "runs/quickstart",
    "export RUN": "runs/quickstart",
    "watch RUN": "runs/quickstart",
    "games RUN": "runs/quickstart",
    "wordle_rl.trainers.verl CONFIG.toml --out RUN": "wordle-rl run CONFIG.toml --out RUN --until sft",
    "export MODEL": qwen3,
    "CHECKPOINT": lambda path, _: make_shards(path),
    "--model.path DIR": "Qwen/Qwen2.5-1.5B-Instruct",
    "--player DIR": "Qwen/Qwen3-1.7B",
    "--model.path NAME": "Qwen/Qwen3-1.7B",
    "--format instruction --model NAME": "Qwen/Qwen3-1.7B",
    "llm.jsonl": "wordle-rl traces --out llm.jsonl",
    "traces.jsonl": "wordle-rl traces --out traces.jsonl",
    "narrated.jsonl": "wordle-rl traces --narrate --out narrated.jsonl",
    "chat.jsonl": ("wordle-rl dataset narrated.jsonl --out made", "made_sft_train.jsonl"),
    "rows.jsonl": ("wordle-rl dataset llm.jsonl --out made", "made_sft_train.jsonl"),
    "data/wordle_rl_train.jsonl": "wordle-rl dataset llm.jsonl --out data/wordle",
    "data/wordle_rl_val.jsonl": "wordle-rl dataset llm.jsonl --out data/wordle",
    "starts.jsonl": "wordle-rl dataset theirs.csv --rows grpo --out starts.jsonl",
    "theirs.csv": rows_elsewhere,
    "words.csv": words_csv,
    "curves.csv": lambda path, _: path.write_text("step,loss,wins\n1,2.0,0\n2,1.0,3\n"),
    "words.json": lambda path, words: path.write_text(json.dumps((words / "answers.txt").read_text().split())),
    "answers.txt": lambda path, words: shutil.copy(words / "answers.txt", path),
    "guesses.txt": lambda path, words: shutil.copy(words / "guesses.txt", path),
    "list.txt": lambda path, words: shutil.copy(words / "answers.txt", path),
    "lists/german": lambda path, words: shutil.copytree(words, path),
    "rules.txt": lambda path, _: path.write_text("Guess a word of {word_length} letters like this: {example}"),
    "theirs.txt": lambda path, _: path.write_text("Guess a word of {word_length} letters like this: {example}"),
    "CONFIG.toml": config,
    "my.toml": lambda path, _: path.write_text('[grpo.reward]\npreset = "shaped"\n'),
    "base.json": "wordle-rl eval --player solver --out base.json",
    "tuned.json": "wordle-rl eval --player consistent --out tuned.json",
    "my_package": adapter,
}
"""Words of a command, the last of which stands for a file or directory -> how it is made before the command runs: by
another command, by one and the name of what it writes, as a copy of another, or by a function of its path and the
directory of words. What an earlier command of the row has written stays. `URL` and providers are a server of the test,
repositories of the hub lie on a hub of the test."""


@dataclass(frozen=True)
class Kept:
    """What rows share: a directory of placeholders, each made once, and the presets that were run as they are."""

    directory: Path
    presets_run: set[str] = field(default_factory=set)


class RowRunner:
    """Does what rows say, each in a directory of its own."""

    def __init__(self, workspace: Workspace, kept: Kept) -> None:
        self.workspace, self.kept, self.monkeypatch = workspace, kept.directory, workspace.monkeypatch
        self.presets_run = kept.presets_run

    def do(self, step: Step) -> None:
        self.place(step.text)
        if step.kind == "settings":
            self.lay_over(step)
        elif step.kind == "option":
            command, option = step.text.rsplit(" ", 1)
            with redirect_stdout(io.StringIO()) as described:
                assert main([command.split()[1], "--help"]) == 0
            assert re.search(rf"(?<![\w-]){option}(?![\w-])", described.getvalue())
        elif step.is_elsewhere:
            self.look(self.words_of(step.text))
        elif not (preset := re.fullmatch(r"wordle-rl run ([\w.-]+)(?: --overwrite)?", step.text)):
            self.run(step.text)
        elif preset[1] not in self.presets_run:  # several rows name the same one, which takes long
            self.run(step.text)
            self.presets_run.add(preset[1])

    def place(self, text: str) -> None:
        """Put what the text names where it names it."""
        for pattern, how in PLACEHOLDERS.items():
            name = pattern.split()[-1]
            if Path(name).exists() or not re.search(rf"(?<!--out )(?<![\w./-]){re.escape(pattern)}(?!\w)", text):
                continue
            made = self.made(pattern, name, how)
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if made.is_dir() else shutil.copy)(made, name)

    def made(self, pattern: str, name: str, how: str | tuple[str, str] | Maker) -> Path:
        if how in PLACEHOLDERS:
            return self.made(how, how, PLACEHOLDERS[how])
        if how in HUB:
            return self.kept / how
        directory = self.kept / re.sub(r"\W+", "_", pattern)
        if not (directory / name).exists():
            before = Path.cwd()
            new_directory(directory, self.kept)
            self.monkeypatch.chdir(directory)
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            if isinstance(how, str):
                self.run(how)
            elif isinstance(how, tuple):
                self.run(how[0])
                Path(how[1]).rename(name)
            else:
                how(Path(name), self.workspace.words)
            self.monkeypatch.chdir(before)
        return directory / name

    def words_of(self, text: str) -> list[str]:
        """The words of a command as a shell would give them."""
        words = shlex.split(text.replace("base-url URL", f"base-url {self.workspace.endpoint}"))
        return [re.sub(r"\$\(cat (.+?)\)", lambda file: Path(file[1]).read_text(), word) for word in words]

    def run(self, text: str) -> None:
        self.place(text)
        program, *arguments = self.words_of(text)
        if program == "torchrun":
            self.launch(arguments)
        elif program == "python" and arguments[0] == "-m":
            assert arguments[1] == "wordle_rl.trainers.verl"
            assert verl(arguments[2:]) == 0
        elif program == "python":
            script = runpy.run_path(str(ROOT / arguments[0]))
            assert script["main"](arguments[1:]) == 0
        elif arguments[0] in ("serve", "watch"):
            self.visit(arguments)
        elif arguments[0] == "play" and "--player" not in arguments:
            self.monkeypatch.setattr("sys.stdin", io.StringIO("?\ncrane\n!\n"))
            code, out, err = self.workspace.cli(*arguments)
            assert (code, "the word was" in out) == (0, True), err
        elif arguments[0] == "compare" and "--reference" in arguments:
            # A run that has learnt by these settings takes minutes.
            stored = load_config("quickstart").stored()
            Path(arguments[1], "config.json").write_text(json.dumps(stored))
            code, out, err = self.workspace.cli(*arguments)
            assert code in (0, 1), err
            assert ("outside" in out) == (code == 1)
        else:
            self.workspace.wordle_rl(arguments)

    def launch(self, arguments: list[str]) -> None:
        """Start the processes."""
        given = torchrun_parser().parse_args(arguments)
        assert (given.module, given.training_script) == (True, "wordle_rl")
        name, *_ = run = given.training_script_args
        command = ["-m", "torch.distributed.run", "--standalone", *arguments, *self.workspace.smaller(name, run)]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        done = subprocess.run(
            [sys.executable, *command], env=environment, capture_output=True, text=True, check=False, timeout=600
        )
        assert done.returncode == 0, done.stderr[-3000:]

    def visit(self, arguments: list[str]) -> None:
        """Start a server, open its page, and press Ctrl-C."""
        opened = []

        def open_page(text: str) -> None:
            (address,) = re.findall(r"http://[\d.:]+", text)

            def browse() -> None:
                try:
                    opened.append(urllib.request.urlopen(f"{address}/watch/", timeout=60).status)
                finally:
                    os.kill(os.getpid(), signal.SIGINT)

            threading.Thread(target=browse).start()

        interval, handler = sys.getswitchinterval(), signal.getsignal(signal.SIGTERM)
        Path("runs").mkdir(exist_ok=True)
        try:
            with self.monkeypatch.context() as patch:
                patch.setattr(serving, "_say", open_page)
                code, _, err = self.workspace.cli(*arguments, "--port", "0")
        finally:
            sys.setswitchinterval(interval)
            signal.signal(signal.SIGTERM, handler)
        assert (code, opened) == (0, [200]), err

    def look(self, words: list[str]) -> None:
        """Check what can be checked here of a command that needs another environment."""
        program, *arguments = words
        if program == "python":
            assert arguments[:2] == ["-m", "wordle_rl.trainers.verl"]
            assert verl([*arguments[2:], "--show"]) == 0
            return
        name, *arguments = arguments
        call = read(COMMANDS[name].load(), f"wordle-rl {name}", arguments)
        if name == "run":
            config = load_config(call.args[0] if call.args else call.keywords["config"], call.keywords["overrides"])
            if config.backend == "mlx":
                check_mlx(config)

    def lay_over(self, step: Step) -> None:
        """Settings go with a preset, and a run with them would begin."""
        faults = []
        for preset in FITTING:
            try:
                as_it_is = load_config(preset)
                named = {setting: value_of(as_it_is, setting) for setting in step.named}
                smaller, _ = take_settings(self.workspace.smaller("preflight", ["preflight", preset]))
                checked = load_config(preset, {**smaller, **named, **step.settings})
                if not step.is_elsewhere:
                    look_at(checked, 0, True)
                return
            except ConfigError as error:
                faults.append(f"{preset}: {error}")
        pytest.fail("\n".join(faults))


def value_of(config: RunConfig, setting: tuple[str, ...]) -> object:
    value: object = config
    for name in setting:
        value = getattr(value, name)
    return value


def new_directory(directory: Path, kept: Path) -> None:
    """A directory with what `stock` has made."""
    directory.mkdir(parents=True)
    for name in ("Qwen", "scripts"):
        (directory / name).symlink_to(kept / name)


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Kept:
    root = tmp_path_factory.mktemp("kept")
    stock(root)
    return Kept(root)


@pytest.fixture
def runner(kept, word_directory, split, serve, cli, wandb, trackio, tmp_path, monkeypatch) -> Iterator[RowRunner]:
    endpoint = serve(lambda *_: chat(f"<guess>{split.train[0]}</guess>", usage=(100, 10)))
    for name in ("TOGETHER_API_KEY", "FIREWORKS_API_KEY"):
        monkeypatch.setenv(name, "key-of-a-test")
    monkeypatch.setenv("HF_TOKEN", "hf_" + "secret" * 5)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    new_directory(tmp_path / "here", kept.directory)
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(sys, "path", [*sys.path])
    rows_elsewhere(tmp_path / "train.csv", word_directory)
    with open_hub() as hub:
        hub.repos["predibase/wordle-grpo"] = {"train.csv": (tmp_path / "train.csv").read_bytes()}
        monkeypatch.setattr(huggingface_hub.HfApi, "whoami", lambda _: {"name": "USER"})
        monkeypatch.setattr("huggingface_hub.HfApi", partial(huggingface_hub.HfApi, endpoint=hub.url))
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
        yield RowRunner(Workspace(word_directory, endpoint.url, cli, monkeypatch), kept)
    for name in [name for name in sys.modules if name.startswith("my_package")]:
        del sys.modules[name]


@pytest.mark.slow
@pytest.mark.parametrize("row", [row for row in ROWS if steps_of(row)], ids=lambda row: row.name)
def test_what_a_row_has_to_type_does_what_it_is_for(row: Row, runner: RowRunner) -> None:
    for step in steps_of(row):
        runner.do(step)
