"""Where commands print: results on standard output, what happens meanwhile on standard error."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console

out = Console(soft_wrap=True)
messages = Console(stderr=True)


def print_json(value: Any) -> None:
    """Print JSON and nothing else on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
