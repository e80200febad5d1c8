"""Atomic writes; JSON with errors in one line."""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TextIO, TypeGuard

from wordle_rl.errors import UserError, special_file


class RunError(UserError):
    """A run directory that cannot be used; the message names the file and the fix."""


def write_text_atomically(path: Path, text: str) -> None:
    """Write a file completely or not at all."""
    with _partial_file(path) as file:
        file.write(text)


@contextmanager
def _partial_file(path: Path) -> Iterator[TextIO]:
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with partial.open("w", encoding="utf-8") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())  # or a loss of power could leave the new name without content
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from error


def check_writable(path: Path) -> None:
    """Check that a file can be written, before the work that it is for."""
    if path.is_dir():
        raise RunError(f"{path} is a directory; name a file")
    place = next(parent for parent in path.absolute().parents if parent.exists())
    try:
        # A trial says why not, and asks for what is needed: a file that is there is not changed.
        with path.open("ab") if path.exists() else TemporaryFile(dir=place):
            pass
    except OSError as error:
        raise cannot_write(path, error) from error


def cannot_write(path: Path, error: Exception) -> RunError:
    """Return the error for a file or directory that cannot be written, with the way out."""
    full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error)
    fix = "free space and run again, or choose another place" if full else "choose another place"
    return RunError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}; {fix}")


def without_lone_surrogates(text: str) -> str:
    """Replace lone surrogates, which cannot be written to a file, by question marks.

    Examples:
        >>> without_lone_surrogates("a\\ud83d")
        'a?'
    """
    return text.encode("utf-8", "replace").decode()


def json_line(row: Mapping[str, Any]) -> str:
    """Serialise a row as one line of a JSON-lines file, with the line break."""
    return json.dumps(row, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically; see `write_text_atomically`."""
    write_text_atomically(path, json_text(value))


def json_text(value: Any) -> str:
    """Serialise a value as the text of a JSON file."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write rows as JSON lines atomically, and return how many there were."""
    count = 0
    with _partial_file(path) as file:
        for row in rows:
            file.write(json_line(row))
            count += 1
    return count


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Read JSON lines; a line that is not a JSON object is a `RunError` that names it."""
    return (row for _, row in read_jsonl_offsets(path))


def read_jsonl_offsets(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read JSON lines with the byte offset of each; raises what `read_jsonl` does."""
    if not path.is_file():
        raise RunError(f"no file {path}; name a file of JSON lines")
    offset = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                # Editors on Windows put a byte-order mark in front.
                row = parse_json(line.decode("utf-8" if offset else "utf-8-sig"))
            except ValueError as error:  # not JSON, or not UTF-8
                fix = "delete the line or regenerate the file" if number > 1 else "name a file of JSON lines"
                if number > 1 and not line.endswith(b"\n"):
                    fix = "the line is cut off: delete it, or run again the command that writes the file"
                raise RunError(f"{path}:{number} is not JSON ({error}); {fix}") from None
            if not isinstance(row, dict):
                raise RunError(f"{path}:{number} is a {type(row).__name__}, not a JSON object; fix the line")
            yield offset, row
            offset += len(line)


def parse_json(text: str | bytes) -> Any:
    """Parse JSON from an untrusted source; `ValueError` also where it is nested too deeply for Python."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def is_number(value: object) -> TypeGuard[float]:
    """True if a value is a finite number, and not a boolean."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object that a run stored."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise RunError(f"{path} is a {type(value).__name__}, not a JSON object; delete it, or start the run over")
    return value


def read_json(path: Path) -> Any:
    """Read JSON that a run stored."""
    if found := special_file(path):
        raise RunError(f"{path} is {found}, not a file; delete it, or start the run over")
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RunError(f"{path} is not JSON ({error}); delete it, or start the run over") from None
