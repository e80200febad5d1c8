"""Your own code by import path, `module:attribute`, in place of a fork: rewards, credit, a style, a teacher, a player.

Importing a module runs it. A module is imported when a setting that names it is checked or used, never before.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import math
import re
import sys
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

_NAME = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_IMPORT_PATH = re.compile(f"{_NAME}:{_NAME}")


def is_import_path(name: str) -> bool:
    """True if a name has the form `module:attribute`.

    Examples:
        >>> is_import_path("my_pkg.rewards:vowels"), is_import_path("win"), is_import_path("runs/quickstart")
        (True, False, False)
    """
    return _IMPORT_PATH.fullmatch(name) is not None


def resolve(path: str, setting: str, refusal: type[ValueError], *, takes: str | None = None) -> Callable[..., Any]:
    """Import the function or class that a setting names.

    Args:
        path: `module:attribute`. The current directory is searched after the installed packages.
        setting: Name of the setting, for the message.
        refusal: Error to raise.
        takes: Arguments that it will be called with, as in `turn_rewards, scale=`; None: not checked.

    Raises:
        ValueError: A `refusal`, if there is no such module or attribute, or it cannot be called so.
    """
    shown = f"{setting} {path!r}"
    if not is_import_path(path):
        raise refusal(f"{shown} is no import path; give module:attribute")
    # `python -m` finds modules of the current directory, an installed command does not. Last, so they hide no package.
    if not {"", str(Path.cwd())} & {*sys.path}:
        sys.path.append(str(Path.cwd()))
    module, _, attribute = path.partition(":")
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise refusal(f"{shown}: no module {error.name!r}; install it, or run where it lies") from error
    try:
        found = attrgetter(attribute)(imported)
    except AttributeError as error:
        raise refusal(f"{shown}: {module} has no {attribute!r}; name what it defines") from error
    if not callable(found):
        raise refusal(f"{shown} is not callable; name a function or a class")
    if takes is not None:
        check_call(found, shown, refusal, takes)
    return found  # type: ignore[no-any-return]  # `callable` says no more


def check_call(function: Callable[..., Any], shown: str, refusal: type[ValueError], takes: str) -> None:
    """Refuse a function that cannot be called with these arguments, as in `turn_rewards, scale=`.

    Raises:
        ValueError: A `refusal` that begins with `shown`.
    """
    names = takes.split(", ") if takes else []
    try:
        signature = inspect.signature(function)
    except ValueError:  # some functions written in C have none
        return
    try:
        signature.bind(
            *(name for name in names if not name.endswith("=")),
            **{name[:-1]: None for name in names if name.endswith("=")},
        )
    except TypeError as error:
        raise refusal(f"{shown} cannot be called with ({takes}): {error}") from error


def numbers_of(values: object) -> tuple[float, ...] | None:
    """The finite numbers in what a function returned, such as a list or an array; None if it is anything else.

    Examples:
        >>> numbers_of([1, 0.5]), numbers_of([float("nan")]), numbers_of(None)
        ((1.0, 0.5), None, None)
    """
    try:
        found = tuple(float(value) for value in values)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        return None
    return found if all(map(math.isfinite, found)) else None


def source_mark(path: str) -> str:
    """Mark that changes with the file of the module that an import path names; the module has been imported."""
    file = sys.modules[path.partition(":")[0]].__file__
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16] if file is not None else ""
