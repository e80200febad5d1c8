"""Parse a command's arguments with tyro, from the function's signature, and report a wrong one in one line."""

from __future__ import annotations

import contextlib
import difflib
import functools
import inspect
import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

import tyro
from pydantic import ValidationError

from wordle_rl.cli.settings import HELP, take_settings
from wordle_rl.config import ConfigError, describe

Json = Annotated[bool, tyro.conf.arg(name="json", help="Print the result as JSON.")]
Words = Annotated[
    str,
    tyro.conf.arg(
        help="Word list: default, original, nyt, an imported name, a file of words, ANSWERS,GUESSES as two files, or a "
        "directory with answers.txt and guesses.txt."
    ),
]
PlayersWords = Annotated[
    str | None,
    tyro.conf.arg(
        help="Word list: default, original, nyt, an imported name, a file of words, ANSWERS,GUESSES as two files, or a "
        "directory with answers.txt and guesses.txt. Default: the list of the model's run, else default."
    ),
]
StrictFraction = Annotated[
    float,
    tyro.conf.arg(
        help="Fraction of the answers, some of the test secrets, that these games must never name. Use the "
        "words.strict_fraction of the run that will learn from them."
    ),
]
Seed = Annotated[int, tyro.conf.arg(help="Random seed.")]
Address = Annotated[
    str | None,
    tyro.conf.arg(
        aliases=["--provider"],
        help="Endpoint of openai:MODEL: together, fireworks, openai (the default), local (port 8000 of this machine), "
        "or a URL. Keys come from the environment or .env: TOGETHER_API_KEY, FIREWORKS_API_KEY, else OPENAI_API_KEY.",
    ),
]
_ELSEWHERE = {
    "output_dir": "--out",
    "output": "--out",
    "model_name_or_path": "--player, or --model.path of a run",
    "checkpoint": "--player",
    "n": "--max-games",
}
"""Options that people know from other tools -> ours."""
_MAY_BE_EMPTY = ("system-prompt", "system_prompt")


def read(function: Callable[..., int | None], program: str, arguments: Sequence[str]) -> Callable[[], int | None]:
    """Bind a command's function to its arguments. `--help` prints help and exits.

    Args:
        function: Its signature and docstring give the options and the help. A parameter `overrides: Overrides` takes
            the run settings among the arguments.
        program: The command as you type it, such as `wordle-rl eval`.
        arguments: The words after it.

    Raises:
        ConfigError: If the arguments do not fit the function.
    """
    given = list(arguments)
    _check_not_empty(given)
    bound: dict[str, Any] = {}
    if "overrides" in inspect.signature(function).parameters:
        if any(word in HELP for word in given):
            from wordle_rl.cli.settings import show_help

            show_help(function, program, given)
            raise SystemExit(0)
        bound["overrides"], given = take_settings(given)

    @functools.wraps(function)
    def with_arguments(*args: Any, **kwargs: Any) -> Callable[[], int | None]:
        return functools.partial(function, *args, **kwargs, **bound)

    signature = inspect.signature(function, eval_str=True)
    parameters = [each for each in signature.parameters.values() if each.name != "overrides"]
    with_arguments.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    helps = any(word in ("-h", "--help") for word in given)
    with _one_line(function, helps=helps):
        flags = (tyro.conf.FlagCreatePairsOff, tyro.conf.EnumChoicesFromValues)
        call: Callable[[], int | None] = tyro.cli(with_arguments, prog=program, args=given, config=flags)
        return call


def _check_not_empty(arguments: Sequence[str]) -> None:
    # An unset shell variable leaves an empty argument, and an empty path would mean the current directory.
    option = ""
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if name.startswith("--"):
            option = name
        elif argument:
            option = ""
            continue
        if (not argument or (equals and not value)) and not option.endswith(_MAY_BE_EMPTY):
            raise ConfigError(f"{option or 'an argument'} is empty; give a value", option.removeprefix("--"))


@contextlib.contextmanager
def _one_line(function: Callable[..., Any], *, helps: bool) -> Iterator[None]:
    # tyro prints a box to stderr and exits. Catch both, and raise the text of the box instead.
    heard = io.StringIO()
    before = os.environ.get("COLUMNS")
    if not helps:
        os.environ["COLUMNS"] = "10000"  # keep tyro from wrapping lines and cutting paths
    try:
        with contextlib.redirect_stderr(heard):
            yield
    except ValidationError as error:
        raise ConfigError(describe(error)) from None
    except SystemExit as stop:
        if not stop.code:
            raise
        raise ConfigError(_told(heard.getvalue(), function)) from None
    finally:
        os.environ.pop("COLUMNS", None) if before is None else os.environ.update(COLUMNS=before)


def _told(box: str, function: Callable[..., Any]) -> str:
    """Extract the message from tyro's box, and add what an unknown option probably meant."""
    lines = [line.strip("\u2502 ").strip() for line in box.splitlines()]
    text = " ".join(line for line in lines if line and not re.search("[\u2500-\u257f]|----", line))
    text = re.split(r",? *(?:\[type=|Argument helptext:|For full helptext|Perhaps you meant|Similar)", text)[0]
    if found := re.search(r"Unrecognized (?:or misplaced )?options: ([^(]*)", text):
        words = found[1].replace(",", "").split()
        return f"unrecognized options: {' '.join(words)}{_hint(words[0], function)}"
    if found := re.match(r"Missing from (.*?): (.*)", text):
        missing = re.findall(r"(?<=, )--[\w-]+|^--[\w-]+", found[2])
        what = missing[-1] if missing else found[2].partition(" ")[2].partition(" (required)")[0]
        return f"{found[1]} needs {what}"
    text = re.sub(r"^(?:Value error )?Error parsing (?!--)\S+: ", "", text)
    return re.sub(r"\d+ validation errors? for \w+ (?:([\w.]+) )?(?:Value error, )?", r"\1: ", text).removeprefix(": ")


def _hint(word: str, function: Callable[..., Any]) -> str:
    known = list(_options_of(function))
    name = word.removeprefix("--").replace("-", "_")
    if name in _ELSEWHERE:
        return f" (did you mean {_ELSEWHERE[name]}?)"
    if not word.startswith("-"):
        return f" (did you mean --player {word}?)" if "player" in known else ""
    close = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean --{close[0].replace('_', '-')}?)" if close else ""


def _options_of(function: Callable[..., Any]) -> Iterator[str]:
    """Yield the names of a command's options, including those of nested sections."""
    kinds = {name: each.annotation for name, each in inspect.signature(function, eval_str=True).parameters.items()}
    while kinds:
        name, kind = kinds.popitem()
        kind = getattr(kind, "__origin__", kind)
        fields = getattr(kind, "model_fields", None) or getattr(kind, "__dataclass_fields__", {})
        yield name
        hints = {field: getattr(fields[field], "annotation", None) for field in fields}
        yield from hints
        kinds |= {field: inner for field, inner in hints.items() if hasattr(inner, "model_fields")}
