"""A command as a value, reading its arguments, and carrying it out: exit codes, and errors in one line."""

from __future__ import annotations

import functools
import inspect
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tyro
from pydantic import ValidationError
from rich.console import Console
from rich.markup import escape

from wordle_rl.chat.templates import ChatTemplateError
from wordle_rl.cli.options import ANY_FLAG, SHOWN_FLAG
from wordle_rl.cli.refusals import check_no_empty_value, plain_refusals
from wordle_rl.cli.settings import RunSettings
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
_HELP = ("-h", "--help")


@dataclass(frozen=True)
class Command:
    """A function whose signature and docstring are the command's arguments and help.

    Args:
        function: Carries the command out; returns an exit code, or None for 0.
        resumes: Takes the function's arguments by name: does the same command, stopped by Ctrl-C, continue?
    """

    function: Callable[..., int | None]
    resumes: Callable[..., bool] = lambda **_: False

    @property
    def in_short(self) -> Command:
        """The command with the first paragraph of its help, for the list of all commands."""

        @functools.wraps(self.function)
        def shortened(*args: Any, **kwargs: Any) -> int | None:
            return self.function(*args, **kwargs)

        shortened.__doc__ = (inspect.getdoc(self.function) or "").partition("\n\n")[0]
        return replace(self, function=shortened)


@dataclass(frozen=True)
class Call:
    """A command with its arguments by name, not carried out yet."""

    command: Command
    arguments: Mapping[str, Any]

    def __call__(self) -> int:
        """Carry it out; its exit code."""
        return self.command.function(**self.arguments) or 0

    @property
    def stopped(self) -> str:
        """Message after Ctrl-C."""
        if not self.command.resumes(**self.arguments):
            return "stopped"
        without = " without --overwrite" if self.arguments.get("overwrite") else ""
        return f"stopped; what was finished is kept, and the same command{without} resumes from there"

    def naming(self, options: Sequence[str]) -> Call:
        """A copy whose settings know which of them the arguments name."""
        return replace(self, arguments={name: _naming(value, options) for name, value in self.arguments.items()})

    def showing_file(self) -> Command:
        """The command with the settings of its config file as defaults, for its help."""
        given = {name: value for name, value in self.arguments.items() if isinstance(value, RunSettings)}
        defaults = {name: value.showing_file() for name, value in given.items() if value.file is not None}
        return replace(self.command, function=_with_defaults(self.command.function, defaults))


def _naming(value: Any, options: Sequence[str]) -> Any:
    return value.naming(options) if isinstance(value, RunSettings) else value


def _with_defaults(function: Callable[..., Any], defaults: Mapping[str, Any]) -> Callable[..., Any]:
    """A function whose signature has other defaults."""

    @functools.wraps(function)
    def shown(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    signature = inspect.signature(function)
    parameters = [each.replace(default=defaults.get(name, each.default)) for name, each in signature.parameters.items()]
    shown.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return shown


@dataclass(frozen=True)
class Program:
    """A program of one command, or of several by name.

    Args:
        name: As it is typed.
        commands: What it does.
        description: Shown by `--help` of a program of several commands.
        version: Printed by `--version`; empty: there is no such option.
        hint: Printed instead of the parser's refusal where the first word is no command; empty: keep the refusal.
    """

    name: str
    commands: Command | Mapping[str, Command]
    description: str = ""
    version: str = ""
    hint: Callable[[str], str] = lambda _: ""

    def __call__(self, arguments: Sequence[str]) -> int:
        """Carry out the command of the arguments; the exit code is 2 after a wrong input, 130 after Ctrl-C."""
        # It warns of a kernel that nothing here asks for, before every command that loads a model.
        logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)
        stopped = "stopped"
        try:
            if self.version and list(arguments) == ["--version"]:
                sys.stdout.write(f"{self.name} {self.version}\n")
                return 0
            check_no_empty_value(arguments)
            call = self.read(arguments)
            stopped = call.stopped
            return call()
        except BrokenPipeError:  # whoever read our output has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except (*_USER_ERRORS, ValidationError) as error:
            message = describe(error) if isinstance(error, ValidationError) else str(error)
            Console(stderr=True, soft_wrap=True).print(f"[bold red]error:[/] {_escaped(message)}", highlight=False)
            return 2
        except KeyboardInterrupt:
            Console(stderr=True, soft_wrap=True).print(stopped)
            return 130

    def read(self, arguments: Sequence[str]) -> Call:
        """The command that is asked for, with its arguments; prints help and exits if that is asked for.

        Raises:
            ConfigError: If there is no such command, or it does not take the arguments.
        """
        if any(argument in _HELP for argument in arguments):
            self._show_help(arguments)
        try:
            return self._parse(self.commands, arguments, ANY_FLAG).naming(arguments)
        except ConfigError:
            if arguments and (hint := self.hint(arguments[0])):
                raise ConfigError(hint) from None
            raise

    def _show_help(self, arguments: Sequence[str]) -> None:
        """Print help and exit; the defaults shown are those of the config file, if one is named."""
        commands = self.commands
        if not isinstance(commands, Command) and arguments[0] in _HELP:
            commands = {name: command.in_short for name, command in commands.items()}
        try:
            call = self._parse(commands, [each for each in arguments if each not in _HELP], SHOWN_FLAG)
        except ConfigError:  # not complete yet, which is why help is asked for
            call = None
        if call is not None:
            shown = call.showing_file()
            commands = (
                shown
                if isinstance(commands, Command)
                else {name: shown if each is call.command else each for name, each in commands.items()}
            )
        self._parse(commands, arguments, SHOWN_FLAG)

    def _parse(
        self, commands: Command | Mapping[str, Command], arguments: Sequence[str], style: tuple[Any, ...]
    ) -> Call:
        several = not isinstance(commands, Command)
        helps = any(option in arguments for option in _HELP)
        with plain_refusals(" ".join([self.name, *arguments[:several]]), helps=helps):
            call: Call
            if isinstance(commands, Command):
                call = tyro.cli(_to_be_called(commands), prog=self.name, args=arguments, config=style)
            else:
                call = tyro.extras.subcommand_cli_from_dict(
                    {name: _to_be_called(command) for name, command in commands.items()},
                    prog=self.name,
                    description=self.description,
                    args=arguments,
                    config=style,
                )
        return call


def _to_be_called(command: Command) -> Callable[..., Call]:
    """A command bound to its arguments, not called yet: its output is not part of parsing."""

    @functools.wraps(command.function)
    def with_arguments(*args: Any, **kwargs: Any) -> Call:
        bound = inspect.signature(command.function).bind(*args, **kwargs)
        return Call(command, bound.arguments)

    return with_arguments


def _escaped(message: str) -> str:
    return escape(" ".join(message.split()))
