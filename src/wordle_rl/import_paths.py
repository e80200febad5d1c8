"""Load user code by import path, `module:attribute`: rewards, credit assignment, a prompt style, a teacher, a player.

Importing a module runs it, so a module is imported only when a setting that names it is checked or used.
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
    """Return True if a name has the form `module:attribute`.

    Examples:
        >>> is_import_path("my_pkg.rewards:vowels"), is_import_path("win"), is_import_path("runs/quickstart")
        (True, False, False)
    """
    return _IMPORT_PATH.fullmatch(name) is not None


def resolve(path: str, setting: str, refusal: type[ValueError], *, takes: str | None = None) -> Callable[..., Any]:
    """Import the function or class named by a setting.

    Args:
        path: `module:attribute`. Installed packages are searched first, then the current directory.
        setting: Name of the setting, for the error message.
        refusal: Error class to raise.
        takes: Arguments of the later call, such as `turn_rewards, scale=`. None skips the check.
    """
    shown = f"{setting} {path!r}"
    if not is_import_path(path):
        raise refusal(f"{shown} is not an import path; give module:attribute")
    # `python -m` searches the current directory, an installed command does not. Append it, so it shadows no package.
    if not {"", str(Path.cwd())} & {*sys.path}:
        sys.path.append(str(Path.cwd()))
    module, _, attribute = path.partition(":")
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise refusal(f"{shown}: no module {error.name!r}; install it, or run from its directory") from error
    except (ImportError, SyntaxError) as error:
        raise refusal(f"{shown}: {module} cannot be imported ({error}); mend it") from error
    try:
        found = attrgetter(attribute)(imported)
    except AttributeError as error:
        raise refusal(f"{shown}: {module} has no {attribute!r}; name a function or class defined there") from error
    if not callable(found):
        raise refusal(f"{shown} is not callable; name a function or a class")
    if takes is not None:
        check_call(found, shown, refusal, takes)
    return found  # type: ignore[no-any-return]  # `callable` narrows to no more than this


def check_call(function: Callable[..., Any], shown: str, refusal: type[ValueError], takes: str) -> None:
    """Check that a function can be called with these arguments, written as in `turn_rewards, scale=`."""
    names = takes.split(", ") if takes else []
    try:
        signature = inspect.signature(function)
    except ValueError:  # some functions written in C have no signature
        return
    try:
        signature.bind(
            *(name for name in names if not name.endswith("=")),
            **{name[:-1]: None for name in names if name.endswith("=")},
        )
    except TypeError as error:
        raise refusal(f"{shown} cannot be called with ({takes}): {error}") from error


def numbers_of(values: object) -> tuple[float, ...] | None:
    """Return the finite numbers of a returned list or array, or None if it holds anything else.

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
    """Return a hash of the source file of an import path's module, which must have been imported."""
    file = sys.modules[path.partition(":")[0]].__file__
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16] if file is not None else ""
