"""Rows for trainers on disk: JSON lines that may replace an earlier file of rows, and no other file."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from wordle_rl.config import ConfigError

CHAT_ROW = frozenset({"messages"})
"""Fields of a conversation to fine-tune on."""
PROMPT_ROW = frozenset({"prompt", "answer"})
"""Fields of a first prompt and the secret of its game."""
START_ROW = frozenset({"word", "turns"})
"""Fields of a board to start a game from."""


def check_replaceable(path: Path, kinds: Collection[frozenset[str]]) -> None:
    """Refuse to write over a file, unless it is empty or its first line is a row with the fields of one of `kinds`.

    Raises:
        ConfigError: If it holds something else.
    """
    if not path.is_file():
        return
    with path.open("rb") as file:
        line = file.readline()
    try:
        row = json.loads(line) if line else None
    except (ValueError, RecursionError):  # no JSON, no text, or nested too deeply
        row = line
    if line and not (isinstance(row, dict) and row.keys() in kinds):
        raise ConfigError(f"{path} holds something else than rows of this kind; name another --out")
