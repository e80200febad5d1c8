"""Consoles of the commands: results go to standard output, progress to standard error.

Everything is printed as plain text, because names of files, players and words may contain square brackets.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console

out = Console(soft_wrap=True, markup=False, highlight=False)
messages = Console(stderr=True, markup=False, highlight=False)


def print_json(value: Any) -> None:
    """Print JSON and nothing else on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def show(value: Any, lines: Iterable[object], as_json: bool) -> None:
    """Print a result: the value as JSON, or the lines and tables that tell it."""
    if as_json:
        print_json(value)
        return
    for line in lines:
        out.print(line)
