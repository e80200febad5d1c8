"""Base of the errors that a user can mend; the command prints them as one line."""

import stat
from pathlib import Path


class UserError(ValueError):
    """A wrong input: the message names it, says what was expected, and how to mend it."""


def first_line(error: Exception) -> str:
    """Return the first line of another library's error, or the name of its type if it says nothing.

    Examples:
        >>> first_line(ValueError("Validation error for field 'size':\\n    too large\\nand more"))
        "Validation error for field 'size': too large"
    """
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return " ".join(line.strip() for line in (lines[:2] if lines[0].endswith(":") else lines[:1]))


def special_file(path: str | Path) -> str | None:
    """Return what a path is if reading it may never end: a device, a pipe or a socket. None for everything else.

    Examples:
        >>> special_file("/dev/null"), special_file("/tmp"), special_file("no such file")
        ('a device', None, None)
    """
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):  # nothing there, or no possible name: refused where it is opened
        return None
    kinds = {stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode))
