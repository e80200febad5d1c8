"""Manifest of a run: versions, commit, words, hardware, commands; and peak memory."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from wordle_rl import __version__
from wordle_rl.config.run import RunConfig
from wordle_rl.runs.distributed import num_cores
from wordle_rl.words.split import Split

_LIBRARIES = ("torch", "transformers", "trl", "accelerate", "datasets", "peft", "vllm", "numpy", "pydantic")
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
_MEMINFO = Path("/proc/meminfo")
_OF_A_CALL = ("command", "wordle_rl", "git_commit", "libraries", "python", "hardware")
"""Facts that can differ between the calls of a run."""


def manifest(config: RunConfig, split: Split) -> dict[str, Any]:
    """Collect what is needed to reproduce a run: versions, commit, words, split, hardware, command."""
    selects = any(own.validate_every_steps for _, own in config.stages_of("grpo"))
    return {
        "wordle_rl": __version__,
        "git_commit": _git_commit(),
        "command": shlex.join(["wordle-rl", *sys.argv[1:]]),
        "words": config.words.source,
        "fingerprint": split.fingerprint,
        "seed": config.seed,
        "selected_on": "val" if selects else None,  # None: the last weights are kept
        "reported_on": "test",
        "split": {"seed": split.seed, "train": split.train, "val": split.val, "test": split.test}
        | ({"strict": split.strict} if split.strict else {}),
        "libraries": _library_versions(),
        "python": platform.python_version(),
        "hardware": hardware(),
    }


def resumed_manifest(stored: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stored manifest of a resumed run with the facts of the new call added."""
    new = {name: facts[name] for name in _OF_A_CALL}
    if new in calls(stored):
        return dict(stored)
    return {**stored, "later_calls": [*stored.get("later_calls", ()), new]}


def calls(stored: Mapping[str, Any]) -> list[dict[str, Any]]:
    """List the calls of a run in order: command, versions, commit and hardware of each."""
    return [{name: call.get(name) for name in _OF_A_CALL} for call in (stored, *stored.get("later_calls", ()))]


def hardware() -> dict[str, Any]:
    """Describe this machine: processor, cores, memory in GiB, accelerator if any."""
    memory = _physical_memory_bytes()
    facts: dict[str, Any] = {
        "processor": _processor_name(),
        "cores": num_cores(),
        "memory_gib": None if memory is None else round(memory / 1024**3, 1),
        "system": platform.system(),
    }
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        facts["accelerator"] = f"{torch.cuda.device_count()} x {torch.cuda.get_device_name(0)}"
    elif torch is not None and torch.backends.mps.is_available():
        facts["accelerator"] = "Apple GPU (Metal)"
    return facts


def peak_memory_gib() -> float:
    """Return the peak resident memory of this process in GiB; 0.0 if the system does not report it."""
    try:
        import resource
    except ImportError:  # Windows has no resource module
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak) / (1024**3 if sys.platform == "darwin" else 1024**2)


def main_memory_bytes(limit_file: Path = _CGROUP_LIMIT) -> int | None:
    """Return the main memory of the machine, or the limit of its container, in bytes; None if unknown."""
    total = _physical_memory_bytes()
    limit = limit_file.read_text(encoding="ascii").strip() if limit_file.is_file() else "max"
    return min(total, int(limit)) if total is not None and limit.isdecimal() else total


def _physical_memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):  # no such numbers on Windows
        return None


def resident_memory_gib() -> float | None:
    """Return the resident memory of this process in GiB; None if the system does not report it."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:  # no Linux
        return None
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024**3


def unused_memory_bytes(limit_file: Path = _CGROUP_LIMIT, usage_file: Path = _MEMINFO) -> int | None:
    """Return the main memory that this process can still take beside all others, in bytes; None if unknown."""
    total, taken = main_memory_bytes(limit_file), resident_memory_gib()
    if total is None or taken is None:
        return None
    left = max(0, total - round(taken * 1024**3))  # the container's limit may lie below what the machine has
    known = usage_file.read_text(encoding="ascii") if usage_file.is_file() else ""
    found = re.search(r"^MemAvailable: +(\d+) kB$", known, re.MULTILINE)
    return min(left, int(found[1]) * 1024) if found else left


def _library_versions() -> dict[str, str]:
    versions = {}
    for name in _LIBRARIES:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def _git_commit(source: Path = Path(__file__)) -> str | None:
    if _git(source.parent, "ls-files", "--error-unmatch", source.name) is None:
        return None  # the repository around it is another project's, for example one with this package in its venv
    commit = _git(source.parent, "describe", "--always", "--abbrev=12")
    # `describe --dirty` would write the index of the checkout; `status` without optional locks does not.
    changed = _git(source.parent, "--no-optional-locks", "status", "--porcelain", "--untracked-files=no")
    return f"{commit}-dirty" if commit and changed else commit


def _git(directory: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=directory, capture_output=True, text=True, timeout=10, check=False
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


def _processor_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
