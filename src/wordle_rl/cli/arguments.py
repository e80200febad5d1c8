"""Parse a command's arguments with tyro, from the function's signature, and its run settings beside them."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import math
import re
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Annotated, Any

import tyro
from pydantic import ValidationError

from wordle_rl.cli.settings import show_settings, take_settings
from wordle_rl.config.base import ConfigError
from wordle_rl.errors import special_file
from wordle_rl.runs.foreign_text import visible

_LISTS = (
    "Word list: default, original, nyt, an imported name, a file of words, ANSWERS,GUESSES as two files, or a "
    "directory with answers.txt and guesses.txt."
)
Json = Annotated[bool, tyro.conf.arg(name="json", help="Print the result as JSON.")]
Words = Annotated[str, tyro.conf.arg(help=_LISTS)]
PlayersWords = Annotated[
    str | None, tyro.conf.arg(help=f"{_LISTS} Default: the list of the model's run, else default.")
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

_HELP = {"-h", "--help", "--help-all"}


def read(function: Callable[..., int | None], program: str, arguments: Sequence[str]) -> Callable[[], int | None]:
    """Bind a command's function to its arguments. tyro prints help, or what is wrong, and exits.

    Signature and docstring give the options and the help. A parameter `overrides: Overrides` takes the run settings.
    """
    given = list(arguments)
    # An unset shell variable leaves an empty argument, and an empty path would mean the current directory.
    for before, word in pairwise(["", *given]):
        option, equals, value = word.partition("=") if word.startswith("--") else (before, "=", word)
        if equals and not value and not option.replace("_", "-").endswith("system-prompt"):
            raise ConfigError(f"{option if option.startswith('--') else 'an argument'} is empty; give a value")
        if equals and (kind := special_file(value)):
            raise ConfigError(f"{option if option.startswith('--') else 'an argument'} {value} is {kind}; name a file")
    signature = inspect.signature(function, eval_str=True)
    bound: dict[str, Any] = {}
    if takes_settings := "overrides" in signature.parameters:
        bound["overrides"], given = take_settings(given)
    helps = _HELP.intersection(given)
    parameters = [each for each in signature.parameters.values() if each.name != "overrides"]

    def with_arguments(*args: Any, **kwargs: Any) -> Callable[[], int | None]:
        for name, value in signature.bind_partial(*args, **kwargs).arguments.items():
            numbers = value if isinstance(value, tuple) else (value,)
            if any(isinstance(number, float) and not math.isfinite(number) for number in numbers):
                raise ConfigError(f"--{name.replace('_', '-')}: {value} is no finite number; give one")
        return functools.partial(function, *args, **kwargs, **bound)

    # A docstring's line breaks are the source's; a help text is wrapped to the terminal's width.
    with_arguments.__doc__ = re.sub(r"\n {8,}(?=\S)", " ", inspect.getdoc(function) or "")
    with_arguments.__annotations__ = {each.name: each.annotation for each in parameters}
    with_arguments.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    flags = (tyro.conf.FlagCreatePairsOff, tyro.conf.EnumChoicesFromValues)
    said = io.StringIO()  # what tyro says about an argument holds the argument
    try:
        with contextlib.redirect_stderr(said):
            call: Callable[[], int | None] = tyro.cli(
                with_arguments, prog=program, args=["--help"] if helps else given, config=flags
            )
    except ValidationError as error:
        # A rule across options has no place, and names them itself.
        faults = [(".".join(map(str, each["loc"])).replace("_", "-"), each) for each in error.errors()]
        told = [f"--{name} {each['input']}: {each['msg']}" if name else each["msg"] for name, each in faults]
        raise ConfigError("; ".join(told).replace("Value error, ", "")) from None
    except SystemExit:
        if takes_settings and helps:
            source = next((word for word in given if not word.startswith("-")), None)
            show_settings(program, source, whole="--help-all" in helps)
        raise
    finally:
        if said.getvalue():
            sys.stderr.write(visible(said.getvalue(), keeps_colors=True))
    return call
