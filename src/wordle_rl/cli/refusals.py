"""Wrong arguments, told in one line, for every command."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr

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
def plain_refusals() -> Iterator[None]:
    """Say in one line, as for a config file, what tyro would draw a box around."""
    heard = io.StringIO()
    try:
        with redirect_stderr(heard):
            yield
    except SystemExit as stop:
        if not stop.code:
            raise
        _, _, text = heard.getvalue().partition("\n")  # without the title, which says nothing more
        parts = re.sub(r"[\u2500-\u257f]", " ", re.sub(r"\u2500{4,}|-{4,}", ";", text))
        words = " ".join(parts.split()).replace(" ; ", "; ").removeprefix("; ")
        message = _TYRO_PREFIX.sub(_named_setting, words)
        raise ConfigError(re.split(r";? (?:\[type=|Argument helptext:|For full helptext)", message)[0]) from None


def _named_setting(found: re.Match[str]) -> str:
    return ".".join(name for name in found.groups() if name) + ": "
