"""Append-only files of JSON lines: one writer, repaired after a kill, rewound to a checkpoint.

A kill or a loss of power can cut the last line, so it is repaired on opening. A training that resumes from a checkpoint
runs its later steps again, so their rows are removed first.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from wordle_rl.runs.atomic_files import RunError, cannot_write, json_line, parse_json, read_jsonl, write_jsonl
from wordle_rl.runs.lock import acquire, release

LOG_FILES = ("metrics.jsonl", "games.jsonl", "secrets.jsonl", "labels.jsonl")
"""Append-only files of a run."""
_BLOCK = 65536

Row = Mapping[str, Any]


class OtherSettingsError(RunError):
    """A store whose rows were made with other settings."""


class Store:
    """An append-only file of JSON lines, locked against other writers until `close`.

    Opening a store removes an incomplete last line (`num_bytes_cut`). The file is created with its first row.

    Args:
        path: The file.
        settings: Everything the rows depend on, as JSON values; they become the first line. None: no such line.
        begins: How each row begins, to recognise a file that is not ours by its incomplete last line.
        overwrite: Discard what the file holds.
    """

    def __init__(
        self, path: Path, settings: Row | None = None, *, begins: bytes = b"", overwrite: bool = False
    ) -> None:
        self.path = path
        self._has_settings = settings is not None
        self._lock_path = path.with_name(f".{path.name.lstrip('.')}.lock")
        self._lock = acquire(self._lock_path, path)
        try:
            if overwrite:
                path.unlink(missing_ok=True)
            if settings is not None and not _has_first_line(path, settings):
                append_jsonl(path, {"settings": dict(settings)})
            self.num_bytes_cut = repair_end(path, begins)
        except OSError as error:
            self.close()
            raise cannot_write(path, error) from error
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Read the rows."""
        rows = read_jsonl(self.path) if self.path.exists() else iter(())
        return islice(rows, 1 if self._has_settings else 0, None)

    def add(self, *rows: Row) -> None:
        """Append rows, all or none."""
        append_jsonl(self.path, *rows)

    def keep_multiple(self, count: int) -> int:
        """Drop the last rows so that a multiple of `count` is left, and return how many are left."""
        if not self.path.exists():
            return 0
        head = 1 if self._has_settings else 0
        kept = end = offset = 0
        with self.path.open("r+b") as file:
            for number, line in enumerate(file, start=1 - head):
                offset += len(line)
                if number >= 0 and number % count == 0:
                    kept, end = number, offset
            file.truncate(end)
        return kept

    def finish(self, path: Path) -> None:
        """Rename the file to `path`, once all rows are complete."""
        try:
            self.path.replace(path)
        except OSError as error:
            raise cannot_write(path, error) from error

    def discard(self) -> None:
        """Remove the file and close the store."""
        self.path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Let other processes write."""
        release(self._lock, self._lock_path)
        self._lock = None


def _has_first_line(path: Path, settings: Row) -> bool:
    # False if the store is empty, or a kill cut its first line; otherwise the first line must hold these settings.
    if not path.exists():
        return False
    with path.open("rb") as file:
        line = file.readline()
    if not line.endswith(b"\n") and b'{"settings":'.startswith(line[:12]):
        os.truncate(path, 0)
        return False
    try:
        row = parse_json(line)
    except ValueError:
        row = None
    before = row.get("settings") if isinstance(row, dict) else None
    if not isinstance(before, dict):
        raise RunError(f"{path} is not a file of games, so it is not touched; name another --out")
    now = json.loads(json.dumps(settings))
    for name in [*now, *before]:
        if now.get(name) != before.get(name):
            was, wanted = (json.dumps(values.get(name)) for values in (before, now))
            raise OtherSettingsError(
                f"{path} holds games with {name} {was}, not {wanted}; "
                "name another --out, or pass --overwrite to replace them"
            )
    return True


@contextmanager
def unfinished(path: Path, settings: Row) -> Iterator[Store]:
    """Open a hidden store beside `path` that `Store.finish` renames to it; those of other settings are removed."""
    # The settings are in the name, since the finished file has no line for them.
    mark = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]
    hidden = path.with_name(f".{path.name}.{mark}.unfinished")
    for other in path.parent.glob(f".{path.name}.*.unfinished"):
        if other != hidden:
            Store(other).discard()
    store = Store(hidden)
    try:
        yield store
    finally:
        store.close()


def append_jsonl(path: Path, *rows: Row) -> None:
    """Append JSON lines, all or none."""
    lines = "".join(map(json_line, rows)).encode()
    try:
        before = path.stat().st_size if path.exists() else 0
        with path.open("ab", buffering=0) as file:
            if file.write(lines) < len(lines):  # a full disk can accept some bytes without an error
                file.truncate(before)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if len(rows) > 1:  # minutes of work; make sure that a loss of power does not destroy it
                os.fsync(file.fileno())
    except OSError as error:
        raise cannot_write(path, error) from error


def repair_end(path: Path, begins: bytes = b"") -> int:
    """Remove an incomplete last line from a file of JSON lines and return its length in bytes.

    A complete line that only lacks its line break gets one. A missing file stays missing. A file whose incomplete line
    does not begin with `begins` is not ours and is refused.
    """
    if not path.exists():
        return 0
    try:
        with path.open("r+b") as file:
            start = _last_line_start(file, file.seek(0, os.SEEK_END))
            file.seek(start)
            tail = file.read()
            if not tail:
                return 0
            if not begins.startswith(tail[: len(begins)]):
                raise RunError(f"{path} is not a file of games; name another --out")
            try:
                whole = isinstance(parse_json(tail), dict)
            except ValueError:
                whole = False
            if whole:
                file.write(b"\n")
                return 0
            file.truncate(start)
            return len(tail)
    except OSError as error:
        raise cannot_write(path, error) from error


def _last_line_start(file: BinaryIO, size: int) -> int:
    end = size  # search backwards in blocks for the last line break
    while end > 0:
        begin = max(0, end - _BLOCK)
        file.seek(begin)
        place = file.read(end - begin).rfind(b"\n")
        if place >= 0:
            return begin + place + 1
        end = begin
    return 0


def repair_logs(directory: Path) -> list[str]:
    """Repair all logs of a run, remove partial files, and return a sentence for each log that was repaired."""
    for partial in directory.glob(".*.partial"):
        if partial.is_file():  # a directory is a model, which will be written again
            partial.unlink()
    cut = {name: repair_end(directory / name) for name in LOG_FILES}
    return [repaired(directory / name, count) for name, count in cut.items() if count]


def repaired(path: Path, num_bytes: int) -> str:
    """Describe a repair."""
    return f"{path} ended in the middle of a line; removed the incomplete line ({num_bytes} bytes)"


def rewind(directory: Path, firsts: Mapping[str, Mapping[str, int]]) -> int:
    """Remove the rows from a run's logs that a resumed training will write again, and return how many there were.

    `firsts` has, by file and stage, the first step whose rows are removed.
    """

    def is_ahead(row: Row, by_stage: Mapping[str, int]) -> bool:
        first, step = by_stage.get(str(row.get("stage"))), row.get("step")
        return first is not None and isinstance(step, int | float) and step >= first

    removed = 0
    for name, by_stage in firsts.items():
        path = directory / name
        num_ahead = sum(is_ahead(row, by_stage) for row in read_jsonl(path)) if path.is_file() else 0
        if num_ahead:
            write_jsonl(path, (row for row in read_jsonl(path) if not is_ahead(row, by_stage)))
        removed += num_ahead
    return removed
