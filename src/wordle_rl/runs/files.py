"""Files that are whole or absent: atomic writes, and JSON read with bounds."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TextIO, TypeGuard

from wordle_rl.errors import UserError

MAX_LINE_BYTES = 64 << 20
"""A longer line of a file of JSON lines is refused before it is read whole."""

MAX_OBJECT_BYTES = 1 << 30
"""A larger file of one JSON object is refused before it is read."""


class RunError(UserError):
    """A run directory that cannot be used; the message names the file and the fix."""


def write_text_atomically(path: Path, text: str) -> None:
    """Write a file whole or not at all.

    Raises:
        RunError: If it cannot be written, e.g. because the disk is full.
    """
    with _partial_file(path) as file:
        file.write(text)


@contextmanager
def _partial_file(path: Path) -> Iterator[TextIO]:
    """A file beside `path` that replaces it once it is whole; on any error the partial file is removed."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with partial.open("w", encoding="utf-8") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())  # else a loss of power may leave the new name with no content
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror or error}; free space or choose another place") from error


def without_lone_surrogates(text: str) -> str:
    """The text with halves of surrogate pairs, which no file can hold, replaced by question marks.

    Examples:
        >>> without_lone_surrogates("a\\ud83d")
        'a?'
    """
    return text.encode("utf-8", "replace").decode()


def json_line(row: Mapping[str, Any]) -> str:
    """A row as one line of a file of JSON lines, line break included."""
    return json.dumps(row, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"


def write_json(path: Path, value: Any) -> None:
    """Write JSON, whole or not at all; see `write_text_atomically`."""
    write_text_atomically(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write rows as JSON lines, whole or not at all, and return how many there were.

    Raises:
        RunError: If the file cannot be written.
    """
    count = 0
    with _partial_file(path) as file:
        for row in rows:
            file.write(json_line(row))
            count += 1
    return count


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Read JSON lines.

    Raises:
        RunError: If the file is missing or a line is no JSON object; the message names the line.
    """
    return (row for _, row in read_jsonl_offsets(path))


def read_jsonl_offsets(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read JSON lines, each with the byte at which it begins; raises what `read_jsonl` does."""
    if not path.is_file():
        raise RunError(f"no file {path}")
    offset = 0
    with path.open("rb") as file:
        for number, line in enumerate(bounded_lines(file, path), start=1):
            try:
                row = parse_json(line.decode())
            except ValueError as error:  # of the JSON, or of what is no UTF-8
                fix = "delete the line or regenerate the file" if number > 1 else "name a file of JSON lines"
                if number > 1 and not line.endswith(b"\n"):
                    fix = "delete the line, which is cut off, or run again what writes the file"
                raise RunError(f"{path}:{number} is no JSON ({error}); {fix}") from None
            if not isinstance(row, dict):
                raise RunError(f"{path}:{number} holds {type(row).__name__}, expected a JSON object")
            yield offset, row
            offset += len(line)


def bounded_lines(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """Lines of a file, none longer than `MAX_LINE_BYTES`.

    Raises:
        RunError: If one is longer; the message names it.
    """
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise RunError(f"{path}:{number} is longer than {MAX_LINE_BYTES:,} bytes; name a file of one row a line")
        yield line


def parse_json(text: str | bytes) -> Any:
    """Read JSON that somebody else may have written.

    Raises:
        ValueError: If it is none, or nested deeper than Python can follow.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def is_number(value: object) -> TypeGuard[float]:
    """True if a stored or logged value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object that a run stored.

    Raises:
        RunError: If the file holds something else.
    """
    if (size := path.stat().st_size) > MAX_OBJECT_BYTES:
        raise RunError(f"{path} has {size:,} bytes, more than the {MAX_OBJECT_BYTES:,} that are read; delete it")
    try:
        value = parse_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RunError(f"{path} is no JSON ({error}); delete it, or pass --overwrite to start over") from None
    if not isinstance(value, dict):
        raise RunError(f"{path} holds {type(value).__name__}, expected a JSON object; pass --overwrite to start over")
    return value
