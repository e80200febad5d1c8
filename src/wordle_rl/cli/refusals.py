"""Invalid arguments, reported in one line, for every command."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr

from wordle_rl.config import ConfigError

_TYRO_PREFIX = re.compile(
    r"^Error parsing (?:config|__tyro-dummy-inner__\.\w+)\.(\S+): "
    r"\d+ validation errors? for \w+ (?:(\w+) (?=Input |Value error))?(?:Value error, )?"
)
_TAKES_PAIRS = ("template-kwargs", "template_kwargs")
_MAY_BE_EMPTY = ("system-prompt", "template-kwargs")


def check_no_empty_value(arguments: Sequence[str]) -> None:
    """Refuse an empty argument, as an unset variable of a shell leaves it: a path would be the current directory.

    Raises:
        ConfigError: If there is one that is neither the text of a system prompt nor a variable of a template.
    """
    option = ""
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if name.startswith("--"):
            option = name
        elif argument:
            option = option if option.endswith(_TAKES_PAIRS) else ""
            continue
        is_empty = not argument or (equals and not value)
        if is_empty and not option.replace("_", "-").endswith(_MAY_BE_EMPTY):
            raise ConfigError(f"{option or 'an argument'} is empty; give it a value")


@contextmanager
def plain_refusals(program: str, *, helps: bool = False) -> Iterator[None]:
    """Report in one line, as for a config file, an error that tyro would print in a box.

    Args:
        program: The program's name and, if it has several, the command's: options of other commands are no hints.
        helps: Help is asked for, which is laid out for the terminal; a refusal is not, so that no path in it is cut.
    """
    heard = io.StringIO()
    try:
        with redirect_stderr(heard), nullcontext() if helps else _very_wide_terminal():
            yield
    except SystemExit as stop:
        if not stop.code:
            raise
        raise ConfigError(_one_line(heard.getvalue(), program)) from None


@contextmanager
def _very_wide_terminal() -> Iterator[None]:
    """A width, as tyro reads it, at which no line is wrapped."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "10000"
    try:
        yield
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)


def _one_line(box: str, program: str) -> str:
    """The text of a box without its title, the names of similar options in place of their descriptions."""
    _, _, text = box.partition("\n")
    parts = [re.sub("[\u2500-\u257f]", " ", part) for part in re.split("\u2500{4,}|-{4,}", text)]
    told, hints = [], []
    for part in parts:
        if re.match(r"\s*(Perhaps you meant|Arguments similar to)", part):
            hints += _similar(part, program)
        else:
            told.append(" ".join(part.split()))
    message = _TYRO_PREFIX.sub(_named_setting, "; ".join(filter(None, told)))
    message = re.split(r";? (?:\[type=|Argument helptext:|For full helptext)|; For full helptext", message)[0]
    if found := re.match(r"Unrecognized or misplaced options: (.*) Arguments are applied to", message):
        message = (
            "Unrecognized options: " + re.sub(r" \(applied to [^)]*\)(?= )", ",", found[1]).partition(" (applied")[0]
        )
    names = list(dict.fromkeys(hints))[:4]
    return f"{message} (did you mean {' or '.join(names)}?)" if names else message


def _similar(hint: str, program: str) -> list[str]:
    """The names in a list of options, but for those of other commands alone."""
    names = []
    for option in re.split(r"\n\s{4,6}(?=--[a-z])", hint)[1:]:
        commands = re.findall(r"\bin (\S+ \S+) --help", " ".join(option.split()))
        if not commands or program in commands:
            names.append(option.split()[0].rstrip(","))
    return names


def _named_setting(found: re.Match[str]) -> str:
    return ".".join(name for name in found.groups() if name) + ": "
