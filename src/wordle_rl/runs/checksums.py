"""Size and SHA-256 of the files that a training has written, so that a lost or changed one is named when it is read.

    seal(directory)            # after a model is saved: lists its files in wordle_rl_files.json
    check_sealed(directory)    # before it is loaded to play, to train further or to resume

Whoever loads weights checks every byte; whoever only looks at a model (its settings, its tokenizer, whether it is
there) checks weights by their size and all other files in full. On a core with SHA instructions a model of 280 MB takes
0.2 s, beside some seconds for the import of torch, so play is checked as training is. Its checkpoint of 830 MB takes
1.9 s of processor time, 0.7 of them for hashes; a loss or a flipped bit would cost the training. A directory without a
list comes from elsewhere or from an earlier version, and is loaded unchecked.

A checkpoint, the weights that GRPO may choose, and the games of a round keep the same facts (`marks_of`, `check_marks`)
in their own records. A record that a resume trusts carries its own hash (`write_record`, `read_record`).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from wordle_rl.runs.atomic_files import RunError, read_object, write_json

SEAL_FILE = "wordle_rl_files.json"
"""Beside a model: its files with size and SHA-256."""
_WEIGHTS = ".safetensors"
_OWN_HASH = "sha256"

Mark = tuple[int, str]
"""Size in bytes, and SHA-256 in hexadecimal."""
_MARKS: TypeAdapter[dict[str, Mark]] = TypeAdapter(dict[str, Mark])


def seal(directory: Path) -> None:
    """List all files of a directory in it; what lies in its subdirectories is not part of the model."""
    files = (path for path in directory.iterdir() if path.is_file() and path.name != SEAL_FILE)
    write_record(directory / SEAL_FILE, {"files": marks_of(directory, files)})


def add_to_seal(path: Path, content: bytes) -> None:
    """Add a file that is about to be written to the list of its directory, if that has one."""
    listed = path.parent / SEAL_FILE
    if listed.is_file():
        files = read_record(listed, _remedy(listed))["files"]
        write_record(listed, {"files": files | {path.name: (len(content), hashlib.sha256(content).hexdigest())}})


def check_sealed(directory: Path, *, weights: bool = True) -> None:
    """Raise a `RunError` that names a file which a model's directory has lost, or which has changed.

    Args:
        weights: Read the weights, too; otherwise only their size is compared.
    """
    listed = directory / SEAL_FILE
    if not listed.is_file():
        return
    remedy = _remedy(listed)
    is_read = None if weights else lambda name: not name.endswith(_WEIGHTS)
    check_marks(directory, read_record(listed, remedy).get("files"), remedy, is_read)


def _remedy(listed: Path) -> str:
    return f"copy or train the model again; if you changed it on purpose, delete {listed}"


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Write a JSON object with its own hash."""
    write_json(path, {**record, _OWN_HASH: _hash_of(record)})


def read_record(path: Path, remedy: str) -> dict[str, Any]:
    """Read what `write_record` wrote; raise a `RunError` if any value has changed since."""
    record = read_object(path)
    if record.pop(_OWN_HASH, None) != _hash_of(record):
        raise RunError(f"{path} has changed since it was saved; {remedy}")
    return record


def _hash_of(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record).encode()).hexdigest()  # in the order of the file


def marks_of(directory: Path, files: Iterable[Path]) -> dict[str, Mark]:
    """Return size and hash of files by their path below a directory, once they are safely on the disk."""
    found = {}
    for path in sorted(files):
        with path.open("rb") as file:
            os.fsync(file.fileno())  # what vouches for a file must not reach the disk before it
            found[path.relative_to(directory).as_posix()] = (
                os.fstat(file.fileno()).st_size,
                hashlib.file_digest(file, "sha256").hexdigest(),
            )
    return found


def check_marks(directory: Path, stored: object, remedy: str, is_read: Callable[[str], bool] | None = None) -> None:
    """Raise a `RunError` that names the first file which is missing, has another size, or has changed.

    Args:
        stored: What `marks_of` returned.
        remedy: How to mend it.
        is_read: Whether a file of this name is read; of others only the size is compared. None: all are.
    """
    try:
        marks = _MARKS.validate_python(stored)
    except ValidationError:
        raise RunError(f"the list of files of {directory} is damaged; {remedy}") from None
    for name, (size, digest) in marks.items():
        path = directory / name
        if not path.is_file():
            raise RunError(f"{path} is missing; {remedy}")
        if (found := path.stat().st_size) != size:
            raise RunError(f"{path} is damaged: it has {found:,} bytes in place of {size:,}; {remedy}")
        if is_read is not None and not is_read(name):
            continue
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                raise RunError(f"{path} has changed since it was saved; {remedy}")
