"""Before a training: will it work? `run` stops at exactly what `preflight` reports as a problem.

checks.py       the list of checks, and those of settings against the model and the teacher's games
template.py     chat template and stop tokens
memory.py       memory of each stage, and of the device: a GPU, main memory, a Mac
before_run.py   what is left of a run to do, and what would spoil it
report.py       `preflight`: all checks, and a few games
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from wordle_rl.config import ConfigError


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check, in one line that names the setting to change."""

    level: Literal["problem", "warning", "note"]
    message: str


def refuse(findings: Iterable[Finding]) -> None:
    """Raise one error for all problems.

    Raises:
        ConfigError: If there is a problem; one line names all.
    """
    problems = [finding.message for finding in findings if finding.level == "problem"]
    if problems:
        raise ConfigError("; ".join(problems))
