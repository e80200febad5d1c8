"""The `wordle-rl` command: each command's arguments, and under them what it does and prints.

options.py       what several commands share
console.py       where commands print
refusals.py      wrong arguments in one line
words.py         words, solve
traces.py        traces
data.py          analyze, dataset, import
training.py      run, sft, grpo, preflight: a config file, and any of its settings
run.py           the body of run
preflight.py     the body of preflight
eval.py          eval; its request: eval_request.py
compare.py       compare
finished.py      report, card, push, audit, merge, consolidate
play.py          play
"""

from __future__ import annotations

import functools
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

import tyro
from pydantic import ValidationError
from rich.console import Console
from rich.markup import escape

from wordle_rl.chat.templates import ChatTemplateError
from wordle_rl.cli import compare, data, finished, play, traces, training, words
from wordle_rl.cli import eval as evaluating
from wordle_rl.cli.options import STYLE
from wordle_rl.cli.refusals import check_no_empty_value, plain_refusals
from wordle_rl.config import ConfigError, describe
from wordle_rl.evaluate import EvaluationError
from wordle_rl.prompt import PromptError
from wordle_rl.report import ReportError
from wordle_rl.reward import RewardError
from wordle_rl.runs import RunError
from wordle_rl.solver import SolverError
from wordle_rl.words import WordListError

_USER_ERRORS = (
    ConfigError,
    WordListError,
    SolverError,
    RunError,
    EvaluationError,
    PromptError,
    RewardError,
    ReportError,
    ChatTemplateError,
    OSError,
)

_COMMANDS: dict[str, Callable[..., None]] = {
    "words": words.words,
    "solve": words.solve,
    "traces": traces.traces,
    "analyze": data.analyze,
    "dataset": data.dataset,
    "import": data.import_data,
    "eval": evaluating.eval_player,
    "compare": compare.compare,
    "report": finished.report,
    "card": finished.card,
    "push": finished.push,
    "audit": finished.audit,
    "merge": finished.merge,
    "consolidate": finished.consolidate,
    "play": play.play,
}


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit code is 0, 2 after a wrong input, 130 after Ctrl-C."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # It warns of a kernel that nothing here asks for, before every command that loads a model.
    logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)
    try:
        check_no_empty_value(given)
        if given[:1] == ["run"]:
            training.run_config(given[1:])
        elif given[:1] == ["preflight"]:
            training.preflight_config(given[1:])
        elif given[:1] == ["sft"] or given[:1] == ["grpo"]:
            training.stage_config(given[1:], "sft" if given[0] == "sft" else "grpo")
        else:
            _parse(given or ["--help"])()
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (*_USER_ERRORS, ValidationError) as error:
        message = describe(error) if isinstance(error, ValidationError) else str(error)
        Console(stderr=True, soft_wrap=True).print(f"[bold red]error:[/] {_escaped(message)}", highlight=False)
        return 2
    except KeyboardInterrupt:
        Console(stderr=True, soft_wrap=True).print(_stopped(given))
        return 130
    return 0


def _parse(arguments: list[str]) -> Callable[[], None]:
    """The command that is asked for, with its arguments."""
    overview = {**_COMMANDS, **{name: _described(name) for name in training.DESCRIPTIONS}}
    with plain_refusals():
        asked: Callable[[], None] = tyro.extras.subcommand_cli_from_dict(
            {name: _to_be_called(command) for name, command in overview.items()},
            prog="wordle-rl",
            description="Teach language models to play Wordle, and measure honestly what they learned.",
            args=arguments,
            config=STYLE,
        )
    return asked


def _to_be_called(command: Callable[..., None]) -> Callable[..., Callable[[], None]]:
    """The same command, not called yet: what it prints is not part of reading its arguments."""

    @functools.wraps(command)
    def with_arguments(*args: Any, **kwargs: Any) -> Callable[[], None]:
        return functools.partial(command, *args, **kwargs)

    return with_arguments


def _stopped(given: list[str]) -> str:
    """What to say after Ctrl-C: whether the same command goes on from there."""
    words = " ".join(given).replace("=", " ").split()
    keeps = {
        "run": True,
        "sft": True,
        "grpo": True,
        "eval": "--out" in words and not {"random", "consistent"} & {*words},
        "traces": "openai" in words,
    }
    if not keeps.get(words[0] if words else "", False):
        return "stopped"
    without = " without --overwrite" if "--overwrite" in words else ""
    return f"stopped; what was finished is kept, and the same command{without} goes on from there"


def _described(name: str) -> Callable[..., None]:
    """A stand-in for the commands that read a config file first, so that --help lists them."""

    def stand_in() -> None:
        raise ConfigError(f"use: wordle-rl {name} CONFIG.toml{'' if name == 'preflight' else ' --out DIR'}")

    stand_in.__doc__ = training.DESCRIPTIONS[name]
    return stand_in


def _escaped(message: str) -> str:
    return escape(" ".join(message.split()))
