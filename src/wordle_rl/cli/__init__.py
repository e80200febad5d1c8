"""The `wordle-rl` command: a table of commands, each a function whose signature gives its options.

arguments.py     parse a command's arguments, and the settings of a run among them; their help
console.py       where commands print
completion.py    a script for the shell

A command's module is imported only when you call it, so `wordle-rl --help` is quick and needs no torch.
"""

from __future__ import annotations

import codecs
import difflib
import importlib
import io
import logging
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from wordle_rl import __version__
from wordle_rl.errors import UserError, first_line


@dataclass(frozen=True)
class Command:
    """One command.

    Attributes:
        target: `module:function` below `wordle_rl`. The function returns an exit code, or None for 0.
        summary: Line in the list of all commands.
        examples: Arguments to type, and what they do; the end of its help.
        resumes: True if the same command resumes after Ctrl-C. The name of an option: only with that option.
    """

    target: str
    summary: str
    examples: Mapping[str, str] = field(default_factory=dict)
    resumes: bool | str = False

    def load(self) -> Callable[..., int | None]:
        """Import the command's function."""
        module, _, name = self.target.partition(":")
        function: Callable[..., int | None] = getattr(importlib.import_module(f"wordle_rl.{module}"), name)
        return function


GROUPS = {
    "Play": {
        "play": Command(
            "cli.play:play",
            "Play in the terminal yourself, or watch a player",
            {
                "": "play yourself",
                "--daily": "the word of the day",
                "runs/quickstart --secret crane --verbose": "watch a model",
            },
        ),
        "watch": Command(
            "serve.commands:watch",
            "Replay a run's games in the browser, or play there",
            {"runs/quickstart": "also while it trains", "runs/quickstart --export page.html": "as one file"},
        ),
        "solve": Command(
            "cli.solve:solve",
            "Word lists, the best openers, the solver's tree",
            {
                "": "the best first guesses",
                "--secret crane": "the solver's guesses for a word",
                "--words words.csv --top 3": "in a list of yours",
            },
        ),
    },
    "Train": {
        "run": Command(
            "cli.run:run",
            "Teacher games, SFT, RL, evaluation, report",
            {
                "quickstart": "all, on two CPU cores",
                "quickstart --expert-iteration.rounds 6": "with another setting",
                "quickstart --stages sft,grpo": "any chain of stages",
                "qwen3-1.7b --tiny": "its stages, in a minute",
                "qwen3-1.7b --model.path DIR": "a recipe, your weights",
                "my.toml --grpo.reward.weights.win 2": "a file of yours",
            },
            resumes=True,
        ),
        "preflight": Command(
            "cli.run:preflight",
            "Check that a run will work before you train",
            {
                "qwen3-1.7b --model.path DIR": "a recipe, your weights",
                "qwen3-4b --groups 0": "memory alone, no weights",
            },
        ),
    },
    "Games as data": {
        "traces": Command(
            "cli.traces:traces",
            "Have a teacher play games",
            {
                "--out t.jsonl --num-games 1000": "the solver's",
                "--out t.jsonl --narrate": "with thinking",
                "--out t.jsonl --teacher openai --model NAME": "a model's",
            },
            resumes=True,
        ),
        "dataset": Command(
            "cli.dataset:dataset",
            "Summarise games, or turn them into rows for training",
            {
                "traces.jsonl": "how many, and how many won",
                "traces.jsonl --out data/wordle": "rows for SFT and RL",
            },
        ),
    },
    "Measure": {
        "eval": Command(
            "cli.eval:eval_player",
            "Let any player play secrets, and measure its games",
            {
                "bundled": "the one bundled",
                "runs/mine --split all --out games.json": "keep the games",
                "runs/mine --temperature 1 --games-per-secret 8": "with pass@8",
            },
            resumes="--out",
        ),
        "compare": Command(
            "cli.compare:compare",
            "Evaluations side by side, with tests and intervals",
            {"runs/before runs/after": "last models of two runs", "a.json b.json --names old new": "two evaluations"},
        ),
        "power": Command(
            "cli.compare:power",
            "How many games show a difference of two win rates",
            {"60 70": "between 60 % and 70 %", "84 85 --chance 0.9": "with more certainty"},
        ),
        "rewards": Command(
            "cli.rewards:rewards",
            "Weights of rewards, and a search for reward hacking",
            {
                "": "all weights",
                "shaped --attack": "can it be gamed?",
                "my.toml --attack --secrets 4 --steps 10": "yours, quickly",
            },
        ),
    },
    "Share": {
        "report": Command(
            "cli.report:report",
            "A run's page, model cards, audit and figures",
            {
                "runs/quickstart": "write report.html anew",
                "runs/quickstart --audit": "prove what was held out",
                "runs/quickstart --wins wins.svg": "a figure of the wins",
            },
        ),
        "export": Command(
            "cli.report:export",
            "Write a whole model from an adapter or shards, or push to the hub",
            {
                "runs/quickstart --out model": "the last model",
                "runs/quickstart --repo USER/NAME --dry-run": "list the files",
            },
        ),
        "serve": Command(
            "serve.commands:serve",
            "Serve Wordle to other trainers (OpenEnv, TextArena)",
            {"": "on this machine", "--reward-preset shaped --port 8020": "another reward and port"},
        ),
        "conformance": Command(
            "trainers.check:conformance",
            "Check another trainer on recorded games",
            {"--trainer my_package.adapter:adapter": "masks, loss"},
        ),
    },
}
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}

_EXTRAS = {"openai": "openai", "openenv": "serve", "fastapi": "serve", "uvicorn": "serve", "mlx": "mlx"}
"""Packages that a command may need -> the extra that brings them; others come with `train`."""
_ELSEWHERE = {
    "train": "wordle-rl run quickstart",
    "evaluate": "wordle-rl eval --player PLAYER",
    "test": "wordle-rl eval --player PLAYER",
    "help": "wordle-rl --help",
    "push": "wordle-rl export RUN --repo USER/NAME",
    "merge": "wordle-rl export RUN --out DIR",
    "fuse": "wordle-rl export RUN --out DIR --backend mlx",
    "words": "wordle-rl solve --words LIST",
    "audit": "wordle-rl report RUN --audit",
    "speedrun": "python benchmarks/speedrun.py RUN RUN RUN",
    "verl": "python -m wordle_rl.trainers.verl CONFIG --out RUN",
}
"""What people type from habit -> the command they mean."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Return 0, 2 after a wrong input, or 130 after Ctrl-C."""
    _prepare_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help"):
        sys.stdout.write(overview())
        return 0
    if given == ["--version"]:
        sys.stdout.write(f"wordle-rl {__version__}\n")
        return 0
    if given[0] == "--completion":
        from wordle_rl.cli.completion import script

        if given[1:] not in (["bash"], ["zsh"]):
            return _refuse("--completion takes bash or zsh")
        sys.stdout.write(script(given[1]))
        return 0
    name, *rest = given
    if name not in COMMANDS:
        return _refuse(f"no command {name}{_hint(name)}; see wordle-rl --help")
    if name == "eval" and rest[:1] == ["--checkpoints"] and len(rest) > 1:
        rest = ["--player", rest[1], "--checkpoints", *rest[2:]]
    if name in ("eval", "play") and rest and not rest[0].startswith("-"):
        rest = ["--player", *rest]  # `wordle-rl eval RUN` is what people type
    return execute(COMMANDS[name], f"wordle-rl {name}", rest)


def execute(command: Command, program: str, arguments: Sequence[str]) -> int:
    """Import a command, parse its arguments, run it and return its exit code."""
    try:
        from wordle_rl.cli.arguments import read
        from wordle_rl.cli.console import PlainLogRecord

        logging.setLogRecordFactory(PlainLogRecord)
        return read(command.load(), program, arguments, command.examples)() or 0
    except BrokenPipeError:
        if not _reader_is_gone():
            return _refuse(f"{program}: a process that it writes to has ended; start it again")
        # The reader of our output, such as `head`. Python would fail again when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except SystemExit as stop:  # tyro has printed help, or what is wrong
        return stop.code if isinstance(stop.code, int) else 1
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package == "wordle_rl":
            raise
        return _refuse(f'{program} needs {error.name}: pip install "wordle-rl[{_EXTRAS.get(package, "train")}]"')
    except UserError as error:
        return _refuse(str(error))
    except KeyboardInterrupt:
        sys.stderr.write(f"{_stopped(command, arguments)}\n")
        return 130
    except Exception as error:
        if (fault := _fault_of_input(error)) is None:
            raise
        # A library does not know which input of the command it was given, so the line repeats the command.
        named = getattr(error, "filename", None) or " ".join([program, *arguments])[:200]
        return _refuse(f"{named}: {fault}")
    finally:
        # torch makes a directory for compiled code when it is imported. It stays empty unless something was compiled.
        with suppress(OSError, KeyError):
            Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]).rmdir()


def _reader_is_gone() -> bool:
    try:
        sys.stdout.write("\n")
        sys.stdout.flush()
    except BrokenPipeError:
        return True
    return False


_OF_INPUT = {
    ("pydantic_core", "ValidationError"),
    ("jinja2", "TemplateError"),
    ("safetensors", "SafetensorError"),
    ("huggingface_hub", "HFValidationError"),
    ("torch", "OutOfMemoryError"),
}
"""Package and class of foreign errors that mean an unfit input or machine. By name: asking must import nothing."""


def _fault_of_input(error: Exception) -> str | None:
    """Describe an error for which the input or the machine is to blame; None for a bug."""
    # The class decides. TypeError, AttributeError, KeyError, AssertionError, RuntimeError and plain ValueError are what
    # bugs of ours raise, and a bug needs its traceback. Where a library raises those for what a file holds, such as a
    # model's config.json, the code that reads the file makes a `UserError` of them.
    classes = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(error).__mro__}
    said = f"{first_line(error)} ({type(error).__name__})"
    if ("pydantic_core", "ValidationError") in classes:
        from wordle_rl.config.files import describe

        return describe(error)  # type: ignore[arg-type]
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):  # numpy; a plain RuntimeError of torch
        return f"this machine has too little memory: {said}"
    if isinstance(error, OSError):
        gone = isinstance(error, FileNotFoundError) and error.filename is None  # os.getcwd
        return "the current directory does not exist any more" if gone else str(error.strerror or said)
    if isinstance(error, ImportError):
        return None if str(error.name).startswith("wordle_rl") else said
    # A chat template is code that comes with a model, and raises anything.
    in_template = any(frame.f_code.co_filename == "<template>" for frame, _ in traceback.walk_tb(error.__traceback__))
    return said if isinstance(error, UnicodeError) or classes & _OF_INPUT or in_template else None


def _prepare_streams() -> None:
    """Print dots, dashes and frames as ASCII where the output's encoding has none; take closed streams as empty."""
    codecs.register_error("wordle_rl.plain", _plain)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115  # until the process ends
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="wordle_rl.plain")


_PLAIN = str.maketrans({"·": ".", "–": "-", "—": "-", "−": "-", "…": "...", "×": "x", "█": "#", "░": ".", "→": "->"})


def _plain(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end].translate(_PLAIN)
    return text.encode("ascii", "replace").decode(), error.end


def overview() -> str:
    """Return the list of all commands."""
    lines = ["usage: wordle-rl COMMAND [OPTIONS]", "", "Teach language models to play Wordle, and measure honestly."]
    for title, commands in GROUPS.items():
        lines += ["", f"{title}:", *(f"  {name:<12} {command.summary}" for name, command in commands.items())]
    lines += ["", "wordle-rl COMMAND --help explains a command, wordle-rl --version prints the version,"]
    lines += ["wordle-rl --completion bash a script that completes commands, recipes and options.", ""]
    lines += ["Begin with: wordle-rl play, or wordle-rl run quickstart", ""]
    return "\n".join(lines)


def _refuse(message: str) -> int:
    from wordle_rl.runs.foreign_text import visible

    red, plain = ("\033[1;31m", "\033[0m") if sys.stderr.isatty() else ("", "")
    sys.stderr.write(f"{red}error:{plain} {visible(' '.join(message.split()))}\n")
    return 2


def _hint(name: str) -> str:
    from wordle_rl.config.stages import is_stage

    if name in _ELSEWHERE:
        return f" (did you mean: {_ELSEWHERE[name]})"
    if is_stage(name):
        return f", a stage of a run (did you mean: wordle-rl run CONFIG --until {name})"
    close = difflib.get_close_matches(name, [*COMMANDS, *_ELSEWHERE], n=1)
    return f" (did you mean: {_ELSEWHERE.get(close[0], f'wordle-rl {close[0]}')})" if close else ""


def _stopped(command: Command, arguments: Sequence[str]) -> str:
    resumes = command.resumes
    if isinstance(resumes, str):
        resumes = any(word.partition("=")[0] == resumes for word in arguments)
    if not resumes:
        return "stopped"
    if "{time}" in " ".join(arguments):
        return "stopped; finished work is kept, and the same command resumes with the --out that it printed"
    without = " without --overwrite" if "--overwrite" in arguments else ""
    return f"stopped; finished work is kept, and the same command{without} resumes from there"
