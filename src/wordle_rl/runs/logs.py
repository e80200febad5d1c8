"""Append-only files after a stop: an incomplete last line is repaired, and lines past the last checkpoint are removed.

A process that is killed, or a machine that loses power, may leave a line cut off in the middle. A training that resumes
from a checkpoint goes through its later steps again, and would log them twice.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from wordle_rl.runs.files import RunError, read_jsonl, write_jsonl

LOG_FILES = ("metrics.jsonl", "games.jsonl", "secrets.jsonl", "labels.jsonl")
"""Files of a run that are only appended to."""
_BLOCK = 65536

Row = Mapping[str, Any]


class NotOwnLineError(RunError):
    """An incomplete last line that is not of the kind of file it stands in."""


def repair_end(path: Path, is_own: Callable[[bytes], bool] = lambda _: True) -> int:
    """Make a file of JSON lines end after a whole line, and return how many bytes of an incomplete one were cut off.

    A last line that lacks its line break alone gets it. A file that is missing is left missing.

    Args:
        path: The file.
        is_own: Judges the incomplete line; False leaves the file as it is.

    Raises:
        NotOwnLineError: If `is_own` says that the line is none of ours.
        RunError: If the file cannot be written.
    """
    if not path.is_file():
        return 0
    try:
        with path.open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            start = _last_line_start(file, size)
            file.seek(start)
            tail = file.read()
            if not tail:
                return 0
            if not is_own(tail):
                raise NotOwnLineError(f"{path} ends with a line of another kind of file; name another file")
            if _is_object(tail):
                file.write(b"\n")
                return 0
            file.truncate(start)
            return len(tail)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror or error}; make it writable and run again") from error


def repair_logs(directory: Path) -> list[str]:
    """Repair all logs of a run directory; a sentence for each that ended in the middle of a line.

    Files that a kill left half written beside their place are removed; none of them was read.
    """
    for unfinished in directory.glob(".*.partial"):
        if unfinished.is_file():  # a directory is a model, which is written again
            unfinished.unlink()
    cut = {name: repair_end(directory / name) for name in LOG_FILES}
    return [repaired(directory / name, count) for name, count in cut.items() if count]


def repaired(path: Path, num_bytes: int) -> str:
    """The report of a repair."""
    return f"{path} ended in the middle of a line, which was cut off ({num_bytes} bytes)"


def drop_rows(path: Path, is_dropped: Callable[[Row], bool]) -> int:
    """Remove rows from a file of JSON lines, whole or not at all, and return how many there were.

    Raises:
        RunError: If a line is no JSON object, or the file cannot be written.
    """
    if not path.is_file():
        return 0
    count = sum(map(is_dropped, read_jsonl(path)))
    if count:
        write_jsonl(path, _kept(read_jsonl(path), is_dropped))
    return count


def _kept(rows: Iterable[dict[str, Any]], is_dropped: Callable[[Row], bool]) -> Iterator[dict[str, Any]]:
    return (row for row in rows if not is_dropped(row))


def rewind(directory: Path, firsts: Mapping[str, Mapping[str, int]]) -> int:
    """Remove from the logs of a run the rows that a resumed training will write again.

    Args:
        directory: The run directory.
        firsts: By file, then by the stage that a row names: the first step whose rows are removed.

    Returns:
        How many rows were removed.

    Raises:
        RunError: If a line is no JSON object, or a file cannot be written.
    """
    return sum(drop_rows(directory / name, partial(_is_ahead, by_stage)) for name, by_stage in firsts.items())


def _is_ahead(firsts: Mapping[str, int], row: Row) -> bool:
    first, step = firsts.get(str(row.get("stage"))), row.get("step")
    return first is not None and isinstance(step, int | float) and step >= first


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _last_line_start(file: BinaryIO, size: int) -> int:
    """Offset of the last line; the file's size if the file ends with a line break."""
    end = size
    while end > 0:
        begin = max(0, end - _BLOCK)
        file.seek(begin)
        found = file.read(end - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return 0
