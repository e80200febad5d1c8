"""All checks in order, each after those it depends on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from wordle_rl.conformance.checks import containment, incentives, replies, reproducible, rewards, rules
from wordle_rl.conformance.checks.check import Check
from wordle_rl.conformance.examiner import Examiner
from wordle_rl.conformance.results import CheckResult, ConformanceReport, Finding, Status, skipped
from wordle_rl.conformance.target import SessionLostError, TargetError

CHECKS: tuple[Check, ...] = (
    *reproducible.CHECKS,
    *rewards.CHECKS,
    *rules.CHECKS,
    *replies.CHECKS,
    *containment.CHECKS,
    *incentives.CHECKS,
)
"""Every check; none depends on a later one."""


def examine(
    examiner: Examiner,
    facts: Mapping[str, Any],
    checks: Iterable[Check] = CHECKS,
    on_result: Callable[[CheckResult], None] = lambda _: None,
) -> ConformanceReport:
    """Hold a target against checks.

    Args:
        examiner: The target.
        facts: What the report is to say about versions and settings.
        checks: In an order in which none depends on a later one. One whose dependency has not passed is skipped.
        on_result: Called after every check.
    """
    results = []
    for check in checks:
        result = carry_out(check, examiner)
        if result.status is Status.PASS:
            examiner.passed.add(check.check_id)
        results.append(result)
        on_result(result)
    return ConformanceReport(examiner.target.name, facts, tuple(results))


def carry_out(check: Check, examiner: Examiner) -> CheckResult:
    """Run one check. A session that breaks off is an error of that check, not of the whole examination."""
    started = time.perf_counter()
    missing = [need for need in check.needs if need not in examiner.passed]
    try:
        finding = skipped(f"needs {', '.join(missing)}") if missing else check.run(examiner)
    except (SessionLostError, TargetError) as error:
        finding = Finding(
            Status.ERROR, (f"{type(error).__name__}: {error}",), {}, "keep answering; see the server's log"
        )
    return CheckResult(
        check_id=check.check_id,
        title=check.title,
        status=finding.status,
        measured=finding.measured,
        evidence=finding.evidence,
        remediation=finding.remedy or None,
        error_level=check.error_level(examiner.settings.games),
        duration_s=time.perf_counter() - started,
    )
