"""Solver games that are being written, chunk by chunk beside the file they will become, so that a stop loses one chunk.

The games of a chunk depend on the settings and the seed alone. A file of other settings is of no
use, so its name carries a mark of them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from wordle_rl.data.trace import Trace
from wordle_rl.runs import RunError, exclusive_lock, json_line


class UnfinishedGames:
    """The whole chunks of a traces file that is not finished.

    Args:
        path: The file that the games become.
        asked: All that the games depend on, as JSON values.
        chunk_size: Games of a chunk; the last one may have fewer.

    Attributes:
        num_chunks: Chunks that are whole, once `held`.
    """

    def __init__(self, path: Path, asked: Mapping[str, Any], chunk_size: int) -> None:
        mark = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:12]
        self._path, self._chunk_size = path, chunk_size
        self._rows = path.with_name(f".{path.name}.{mark}.unfinished")
        self.num_chunks = 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes out, remove what was begun with other settings, and read what was begun with these.

        Raises:
            RunError: If another process writes these games, or the directory cannot be written.
        """
        with exclusive_lock(self._rows):
            for other in self._path.parent.glob(f".{self._path.name}.*.unfinished"):
                if other != self._rows:
                    with exclusive_lock(other):
                        other.unlink()
            self._read()
            try:
                yield
            finally:
                if self._rows.is_file() and not self.num_chunks:
                    self._rows.unlink()

    def _read(self) -> None:
        """Find the whole chunks, and cut off what follows them."""
        ends, offset = [0], 0
        with self._rows.open("rb") as file:
            for number, line in enumerate(file, start=1):
                offset += len(line)
                if number % self._chunk_size == 0 and line.endswith(b"\n"):
                    ends.append(offset)
        self.num_chunks = len(ends) - 1
        os.truncate(self._rows, ends[self.num_chunks])

    def add(self, games: Iterable[Trace]) -> None:
        """Write one chunk.

        Raises:
            RunError: If it cannot be written; what was written before stays.
        """
        try:
            with self._rows.open("ab") as file:
                for trace in games:
                    file.write(json_line(trace.to_row()).encode())
                file.flush()
                os.fsync(file.fileno())
            self.num_chunks += 1
        except OSError as error:
            raise RunError(
                f"cannot write {self._path}: {error.strerror or error}; free space and run again, which resumes"
            ) from error

    def finish(self) -> None:
        """Give the games the name of their file, and remove the rest.

        Raises:
            RunError: If that cannot be done.
        """
        try:
            self._rows.replace(self._path)
        except OSError as error:
            raise RunError(f"cannot write {self._path}: {error.strerror or error}; choose another place") from error
