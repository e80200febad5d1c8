"""Finished games, one JSON line each, so that an evaluation that was stopped continues where it stopped.

The first line holds the settings the games were played with; each further line holds one game and which occurrence of
its secret it is. Games that are errors are not stored, so that they are played again.
"""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from wordle_rl.evaluate.records import EvaluationError, GameRecord, occurrences
from wordle_rl.runs import Run, lock_file, parse_json

_GAME = TypeAdapter(GameRecord)
_START = b'{"settings":'


class Journal:
    """The games finished so far, on disk and in memory; no other process may write to them until `close`.

    Args:
        path: The file; it is created, or continued if it exists. An incomplete last line, left by an interrupted
            process, is removed.
        settings: Everything a game depends on, as JSON values; a file of games played with other settings is refused.
        overwrite: Discard whatever the file holds.

    Attributes:
        games: The games, by secret and occurrence.
        num_bytes_cut: Length of the incomplete last line that was removed; 0: there was none.

    Raises:
        EvaluationError: If the file holds something else, games played with other settings, or a damaged line.
        RunError: If another process writes to it, or it cannot be written.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any], *, overwrite: bool = False) -> None:
        self.path = path
        self.games: dict[tuple[str, int], GameRecord] = {}
        self.close = weakref.finalize(self, os.close, lock_file(path))
        with ExitStack() as unusable:
            unusable.callback(self.close)
            if overwrite:
                os.truncate(path, 0)
            self._open(settings)
            unusable.pop_all()

    def _open(self, settings: Mapping[str, Any]) -> None:
        """Read what the file holds, remove an incomplete last line, and write the first line if there is none."""
        path, content = self.path, self.path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if whole or not _START.startswith(content[: len(_START)]):
            self._read(whole.splitlines(), settings)
        self.num_bytes_cut = len(content) - len(whole)
        if self.num_bytes_cut:
            os.truncate(path, len(whole))
        if not whole:
            self._append({"settings": dict(settings)})

    def add(self, secret: str, occurrence: int, game: GameRecord) -> None:
        """Store one finished game.

        Raises:
            RunError: If it cannot be written.
        """
        self._append({"occurrence": occurrence, "game": _GAME.dump_python(game, mode="json")})
        self.games[secret, occurrence] = game

    def kept(self, secrets: Sequence[str]) -> list[GameRecord]:
        """The games of these secrets that need not be played again."""
        return [self.games[key] for key in occurrences(secrets) if key in self.games]

    def discard(self) -> None:
        """Remove the file, once all its games are stored elsewhere."""
        self.close()
        self.path.unlink(missing_ok=True)

    def _append(self, row: Mapping[str, Any]) -> None:
        Run(self.path.parent).append(self.path.name, row)

    def _read(self, lines: Sequence[bytes], settings: Mapping[str, Any]) -> None:
        before = _object(lines[0] if lines else b"").get("settings")
        if not isinstance(before, dict):
            raise EvaluationError(f"{self.path} is no file of games, so it is left alone; name another --out")
        now = json.loads(json.dumps(settings))
        for name in [*now, *before]:
            if now.get(name) != before.get(name):
                was, wanted = (json.dumps(values.get(name)) for values in (before, now))
                raise EvaluationError(
                    f"{self.path} holds games with {name} {was}, not {wanted}; "
                    "name another --out, or pass --overwrite to replace them"
                )
        for number, line in enumerate(lines[1:], start=2):
            try:
                row = _object(line)
                game = _GAME.validate_python(row["game"])
                self.games.setdefault((game.secret, int(row["occurrence"])), game)
            except (KeyError, TypeError, ValueError):  # pydantic's error is a ValueError
                raise EvaluationError(f"{self.path}:{number} is no game; delete the line to play it again") from None


def _object(line: bytes) -> dict[str, Any]:
    """A line's JSON object; empty if it is none."""
    try:
        value = parse_json(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def journal_of(path: Path, settings: Mapping[str, Any]) -> Journal:
    """The games that an interrupted evaluation with these settings left; games played with others are discarded."""
    try:
        return Journal(path, settings)
    except EvaluationError:
        return Journal(path, settings, overwrite=True)


def num_kept(path: Path) -> int:
    """Number of games in a file of games; 0 if there is none."""
    return max(0, path.read_bytes().count(b"\n") - 1) if path.is_file() else 0


def journal_path(out: Path) -> Path:
    """Path of the finished games of an evaluation file.

    Examples:
        >>> journal_path(Path("runs/eval.json")).as_posix()
        'runs/eval.games.jsonl'
        >>> journal_path(Path("runs/rep.1")).as_posix()
        'runs/rep.1.games.jsonl'
    """
    return out.with_name(f"{out.stem if out.suffix == '.json' else out.name}.games.jsonl")
