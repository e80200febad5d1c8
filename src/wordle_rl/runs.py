"""The run directory: resolved config, manifest, metrics, games, results. Every file is whole or absent.

runs/NAME/
  config.json     every setting, resolved
  manifest.json   versions, git commit, word-list fingerprint, split, hardware, command
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
import importlib.metadata
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from wordle_rl import __version__
from wordle_rl.config import RunConfig
from wordle_rl.processes import num_cores
from wordle_rl.split import Split

_LIBRARIES = ("torch", "transformers", "trl", "accelerate", "datasets", "peft", "vllm", "numpy", "pydantic")


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


def lock_file(path: Path) -> int:
    """Keep a file to this process for as long as the descriptor returned is open; a missing file is made, empty.

    Raises:
        RunError: If another process keeps it, or the file system cannot lock.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
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
        raise RunError(f"cannot lock {path}: {error.strerror or error}; choose a place on a local disk") from error
    return descriptor


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Read JSON lines.

    Raises:
        RunError: If the file is missing or a line is no JSON object; the message names the line.
    """
    if not path.is_file():
        raise RunError(f"no file {path}")
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            try:
                row = json.loads(line)
            except ValueError as error:
                raise RunError(f"{path}:{number} is no JSON ({error}); delete the line or make the file anew") from None
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
    def create(cls, directory: Path, config: RunConfig, split: Split) -> Run:
        """Open a directory for a run: store its resolved config and manifest.

        Raises:
            RunError: If the directory holds a run with another config or other words, or cannot be written.
        """
        if directory.exists() and not directory.is_dir():
            raise RunError(f"{directory} is a file, not a run directory; name another --out")
        remedy = "name another --out, or pass --overwrite to start anew"
        resolved, facts = config.model_dump(mode="json"), manifest(config, split)
        config_path, manifest_path = directory / "config.json", directory / "manifest.json"
        if config_path.is_file() and read_object(config_path) != resolved:
            raise RunError(f"{directory} holds a run with other settings; {remedy}")
        if manifest_path.is_file() and read_object(manifest_path).get("fingerprint") != split.fingerprint:
            raise RunError(f"{directory} holds a run with other words under the name {config.words.source!r}; {remedy}")
        write_json(config_path, resolved)
        write_json(manifest_path, facts)
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


def start_anew(directory: Path) -> None:
    """Remove a run, but nothing that is not one.

    Raises:
        RunError: If the directory is not empty and holds no run.
    """
    if not directory.exists():
        return
    if not (directory / "config.json").is_file() and any(directory.iterdir()):
        raise RunError(f"{directory} is no run directory, so it is not removed; name another --out")
    shutil.rmtree(directory)


def _selected_on(config: RunConfig) -> str | None:
    """The secrets by whose figures weights were chosen; None: the last weights are kept."""
    return "val" if config.algorithm == "grpo" and config.grpo.steps and config.grpo.validate_every_steps else None


def manifest(config: RunConfig, split: Split) -> dict[str, Any]:
    """All that is needed to make a run again: versions, commit, words, split, hardware, command."""
    return {
        "wordle_rl": __version__,
        "git_commit": _git_commit(),
        "command": shlex.join(["wordle-rl", *sys.argv[1:]]),
        "words": config.words.source,
        "fingerprint": split.fingerprint,
        "seed": config.seed,
        "selected_on": _selected_on(config),
        "reported_on": "test",
        "split": {"seed": split.seed, "train": split.train, "val": split.val, "test": split.test},
        "libraries": _library_versions(),
        "python": platform.python_version(),
        "hardware": hardware(),
    }


def hardware() -> dict[str, Any]:
    """What this machine is: processor, cores, memory in GiB, accelerator if any."""
    facts: dict[str, Any] = {
        "processor": _processor_name(),
        "cores": num_cores(),
        "memory_gib": _memory_gib(),
        "system": platform.system(),
    }
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        facts["accelerator"] = f"{torch.cuda.device_count()} x {torch.cuda.get_device_name(0)}"
    return facts


def peak_memory_gib() -> float:
    """The most resident memory this process has had, in GiB (0.0 where the system does not tell)."""
    try:
        import resource
    except ImportError:  # Windows has no resource module
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak) / (1024**3 if sys.platform == "darwin" else 1024**2)


def resident_memory_gib() -> float | None:
    """The resident memory of this process now, in GiB; None where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:  # no Linux
        return None
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024**3


def _library_versions() -> dict[str, str]:
    installed = {distribution.metadata["Name"].lower() for distribution in importlib.metadata.distributions()}
    return {name: importlib.metadata.version(name) for name in _LIBRARIES if name in installed}


def _git_commit() -> str | None:
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def _processor_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _memory_gib() -> float | None:
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return None
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3, 1)
