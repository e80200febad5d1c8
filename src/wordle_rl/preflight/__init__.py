"""Before a training: will it work? `run` stops at exactly what `preflight` reports as a problem.

checks.py       the list of checks, and those of settings against the model and the teacher's games
template.py     chat template and stop tokens
memory.py       memory of each stage, and of the device: a GPU, main memory, a Mac
report.py       `preflight`: all checks, and a few games
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check, in one line that names the setting to change."""

    level: Literal["problem", "warning", "note"]
    message: str


def problem(message: str) -> Finding:
    """Report what makes a run fail or teach nothing: `run` refuses it."""
    return Finding("problem", message)


def warning(message: str) -> Finding:
    """Report what probably spoils a run."""
    return Finding("warning", message)


def note(message: str) -> Finding:
    """Report what is good to know."""
    return Finding("note", message)
