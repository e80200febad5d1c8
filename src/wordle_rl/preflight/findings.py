"""Result of a check."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from wordle_rl.config import ConfigError


@dataclass(frozen=True, slots=True)
class Finding:
    """Something found, in one line that names the setting to change."""

    level: Literal["problem", "warning", "note"]
    message: str


def refuse(findings: Iterable[Finding]) -> None:
    """Raise an error if there is a problem.

    Raises:
        ConfigError: With all problems in one line.
    """
    problems = [finding.message for finding in findings if finding.level == "problem"]
    if problems:
        raise ConfigError("; ".join(problems))
