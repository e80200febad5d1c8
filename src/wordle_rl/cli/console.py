"""Consoles of commands: results on standard output, progress on standard error.

What is printed is text: names of files, players and words may hold brackets, which are no markup.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console

out = Console(soft_wrap=True, markup=False)
messages = Console(stderr=True, markup=False)


def print_json(value: Any) -> None:
    """Print JSON and nothing else on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
