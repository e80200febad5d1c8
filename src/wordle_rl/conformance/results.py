"""Findings of checks, and the report of them as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Status(StrEnum):
    """Finding of one check."""

    PASS = "pass"
    FAIL = "fail"
    SKIP = "skip"
    ERROR = "error"
    """The check itself could not be carried through, e.g. because sessions broke off."""


@dataclass(frozen=True)
class Finding:
    """Answer of a check about a target.

    Attributes:
        status: Passed, failed or skipped.
        evidence: Sentences for people; what was seen, at most a few of them.
        measured: Numbers.
        remedy: What to change in the environment; '' where nothing is wrong.
    """

    status: Status
    evidence: tuple[str, ...] = ()
    measured: Mapping[str, Any] = field(default_factory=dict)
    remedy: str = ""


def passed(*evidence: str, **measured: Any) -> Finding:
    """A finding that all is well."""
    return Finding(Status.PASS, evidence, measured)


def failed(evidence: str | Sequence[str], remedy: str, **measured: Any) -> Finding:
    """A finding of a fault and its remedy."""
    seen = (evidence,) if isinstance(evidence, str) else tuple(evidence)
    return Finding(Status.FAIL, seen, measured, remedy)


def skipped(reason: str, **measured: Any) -> Finding:
    """A check that does not apply, with the reason."""
    return Finding(Status.SKIP, (reason,), measured)


@dataclass(frozen=True)
class CheckResult:
    """A finding under its check's id, with the names of OpenEnv's own reports.

    Attributes:
        check_id: Id of RFC 008, or `wordle.*`.
        title: What the check asks for.
        status: See `Status`.
        measured: Numbers.
        evidence: Sentences for people.
        remediation: What to change; None where nothing is wrong.
        error_level: How often the check errs, and why.
        duration_s: Seconds it took; games played for earlier checks are not counted again.
    """

    check_id: str
    title: str
    status: Status
    measured: Mapping[str, Any]
    evidence: tuple[str, ...]
    remediation: str | None
    error_level: str
    duration_s: float


@dataclass(frozen=True)
class ConformanceReport:
    """All results of one target.

    Attributes:
        target: Its name.
        facts: Versions, word list, settings, date.
        results: One per check, in the order they ran.
    """

    target: str
    facts: Mapping[str, Any]
    results: tuple[CheckResult, ...]

    @property
    def conforms(self) -> bool:
        """True if no check failed or broke off."""
        return not any(result.status in (Status.FAIL, Status.ERROR) for result in self.results)

    @property
    def counts(self) -> dict[str, int]:
        """Number of checks by status, all four of them."""
        found = Counter(result.status for result in self.results)
        return {status.value: found[status] for status in Status}

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "target": self.target,
            "conforms": self.conforms,
            "counts": self.counts,
            "facts": dict(self.facts),
            "results": [asdict(result) for result in self.results],
        }
