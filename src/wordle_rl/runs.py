"""The run directory: resolved config, manifest, metrics, games, results. Every file is whole or absent.

runs/NAME/
  config.json     every setting, resolved
  manifest.json   versions, git commit, word-list fingerprint, split, hardware, command; those of later calls too
  traces.jsonl    teacher games
  sft/ grpo/      trained models, transformers directories with a model card (checkpoints inside while training);
                  expert_iteration/, dpo/ or dagger/ instead of grpo/ where the run has that algorithm
  metrics.jsonl   one line per logged step, append-only
  games.jsonl     sample games of training and of validation, append-only
  secrets.jsonl   the secrets of all games of training, append-only
  eval/*.json     every evaluated game
  results.json    the figures
  report.html     all of it to look at
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from wordle_rl.config import ALGORITHM_NAMES, RunConfig
from wordle_rl.provenance import gone_on_with, manifest
from wordle_rl.split import Split

LOCK_FILE = ".lock"
"""Kept by the process that works on a run."""


class RunError(ValueError):
    """A run directory that cannot be used; the message names the file and the mend."""


def write_text_atomically(path: Path, text: str) -> None:
    """Write a file whole or not at all.

    Raises:
        RunError: If it cannot be written, e.g. because the disk is full.
    """
    with _partial_file(path) as file:
        file.write(text)


@contextmanager
def _partial_file(path: Path) -> Iterator[TextIO]:
    """A file beside `path` that takes its place once it is whole; whatever goes wrong, nothing of it is left."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with partial.open("w", encoding="utf-8") as file:
                yield file
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror or error}; free space or choose another place") from error


def writable(text: str) -> str:
    """The text without halves of surrogate pairs, which no file can hold.

    Examples:
        >>> writable("a\\ud83d")
        'a?'
    """
    return text.encode("utf-8", "replace").decode()


def _json_line(row: Mapping[str, Any]) -> str:
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
            file.write(_json_line(row))
            count += 1
    return count


def append_jsonl(path: Path, row: Mapping[str, Any]) -> None:
    """Append one JSON line, whole or not at all.

    Raises:
        RunError: If the file cannot be written.
    """
    line = _json_line(row).encode()
    try:
        before = path.stat().st_size if path.exists() else 0
        with path.open("ab", buffering=0) as file:
            if file.write(line) < len(line):  # a full disk takes the first bytes without complaint
                file.truncate(before)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror or error}; free space and run again") from error


class NoLockError(RunError):
    """A file system that cannot lock."""


@contextmanager
def kept(path: Path) -> Iterator[None]:
    """Keep others out by a lock file, where the file system can lock; where it cannot, nobody is kept out.

    Raises:
        RunError: If another process keeps it, or it cannot be made.
    """
    try:
        descriptor = lock_file(path)
    except NoLockError:
        yield
        return
    try:
        yield
    finally:
        os.close(descriptor)


def lock_file(path: Path) -> int:
    """Keep a file to this process for as long as the descriptor returned is open; a missing file is made, empty.

    Raises:
        RunError: If another process keeps it, or it cannot be made.
        NoLockError: If the file system cannot lock.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror or error}; choose another place") from error
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(descriptor, 1 << 40, os.SEEK_SET)  # behind all content: what is locked here cannot be read
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError | PermissionError):
            raise RunError(
                f"{path} is being written by another process; wait for its end or name another --out"
            ) from None
        raise NoLockError(f"cannot lock {path}: {error.strerror or error}; choose a place on a local disk") from error
    return descriptor


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Read JSON lines.

    Raises:
        RunError: If the file is missing or a line is no JSON object; the message names the line.
    """
    if not path.is_file():
        raise RunError(f"no file {path}")
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                row = json.loads(line.decode())
            except ValueError as error:  # of the JSON, or of what is no UTF-8
                mend = "delete the line or make the file anew" if number > 1 else "name a file of JSON lines"
                raise RunError(f"{path}:{number} is no JSON ({error}); {mend}") from None
            if not isinstance(row, dict):
                raise RunError(f"{path}:{number} holds {type(row).__name__}, expected a JSON object")
            yield row


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object that a run stored.

    Raises:
        RunError: If the file holds something else.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RunError(f"{path} is no JSON ({error}); delete it, or pass --overwrite to start anew") from None
    if not isinstance(value, dict):
        raise RunError(f"{path} holds {type(value).__name__}, expected a JSON object; pass --overwrite to start anew")
    return value


class Run:
    """One run's directory and clock."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.seconds: dict[str, float] = {}

    @classmethod
    def create(cls, directory: Path, config: RunConfig, split: Split, *, adds: bool = True) -> Run:
        """Open a directory for a run: store its resolved config and manifest.

        Args:
            directory: Is made if it is missing.
            config: Every setting.
            split: The run's secrets.
            adds: Whether this call will add to the run; if not, its manifest stays as it is.

        Raises:
            RunError: If the directory holds a run with another config or other words, or something that is no run, or
                cannot be written.
        """
        check_place(directory)
        config_path, manifest_path = directory / "config.json", directory / "manifest.json"
        if config_path.is_file() and not manifest_path.is_file():
            raise RunError(f"{directory} holds a config.json that is not a run's; name another --out")
        remedy = "name another --out, or pass --overwrite to start anew"
        resolved, facts = config.model_dump(mode="json"), manifest(config, split)
        if config_path.is_file() and (before := read_object(config_path)) != resolved:
            raise RunError(f"{directory} holds a run with other settings{_differing(before, resolved)}; {remedy}")
        if manifest_path.is_file():
            stored = read_object(manifest_path)
            if stored.get("fingerprint") != split.fingerprint:
                words = config.words.source
                raise RunError(f"{directory} holds a run with other words under the name {words!r}; {remedy}")
            facts = gone_on_with(stored, facts) if adds else stored
        write_json(manifest_path, facts)  # first: a config.json without it is taken for something else
        write_json(config_path, resolved)
        return cls(directory)

    def append(self, name: str, row: Mapping[str, Any]) -> None:
        """Append one JSON line to `name` (metrics.jsonl or games.jsonl), whole or not at all.

        Raises:
            RunError: If the file cannot be written.
        """
        append_jsonl(self.directory / name, row)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage of the run, one that is broken off included: what an interrupted run cost was spent."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


def _differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """The first three settings that differ, by their dotted names, and how many more there are."""
    was, now = dict(_settings(before)), dict(_settings(after))
    found = [
        f"{name}: {was.get(name, 'not set')}, now {now.get(name, 'not set')}"
        for name in {**now, **was}
        if was.get(name) != now.get(name)
    ]
    more = [f"and {len(found) - 3} more"] if len(found) > 3 else []
    return f" ({'; '.join([*found[:3], *more])})" if found else ""


def _settings(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _settings(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value if isinstance(value, str) else json.dumps(value)


class Outbox(Run):
    """What a process that does not write would append to its run, held until the one that writes takes it."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._rows: list[tuple[str, dict[str, Any]]] = []

    def append(self, name: str, row: Mapping[str, Any]) -> None:
        """Hold the row."""
        self._rows.append((name, dict(row)))

    def take(self) -> list[tuple[str, dict[str, Any]]]:
        """All rows with their files' names; they are held no longer."""
        rows, self._rows = self._rows, []
        return rows


def trained_model(path: Path) -> Path | None:
    """The model directory meant by a path: itself, or the last trained model of a run; None: there is no model."""
    weights = ("model.safetensors", "model.safetensors.index.json", "adapter_model.safetensors")
    for candidate in (path, *(path / name for name in ALGORITHM_NAMES), path / "sft"):
        if any((candidate / name).is_file() for name in weights):
            return candidate
    return None


def check_place(directory: Path) -> None:
    """Refuse a file as run directory.

    Raises:
        RunError: If it is one.
    """
    if directory.exists() and not directory.is_dir():
        raise RunError(f"{directory} is a file, not a run directory; name another --out")


def is_run(directory: Path) -> bool:
    """Whether a directory holds a run."""
    return all((directory / name).is_file() for name in ("config.json", "manifest.json"))


def parts_of(directory: Path) -> list[Path]:
    """What a run writes into its directory, what tells that it is a run last."""
    logs = ("traces.jsonl", "metrics.jsonl", "games.jsonl", "secrets.jsonl", "timings.json")
    names = (*logs, "sft", *ALGORITHM_NAMES, "eval", "results.json", "report.html", "config.json", "manifest.json")
    return [directory / name for name in names]


def check_removable(directory: Path) -> None:
    """Refuse to start anew in a directory that holds something else than a run.

    Raises:
        RunError: If the directory is not empty and holds no run.
    """
    if directory.exists() and not is_run(directory) and (not directory.is_dir() or any(directory.iterdir())):
        raise RunError(f"{directory} is no run directory, so it is not removed; name another --out")


def start_anew(directory: Path) -> None:
    """Remove a run, but none that another process works on; what else lies in its directory stays.

    Raises:
        RunError: If there is something that is no run.
    """
    check_removable(directory)
    if not directory.exists():
        return
    with kept(directory / LOCK_FILE):
        for part in parts_of(directory):
            if part.is_dir() and not part.is_symlink():
                shutil.rmtree(part)
            else:
                part.unlink(missing_ok=True)
