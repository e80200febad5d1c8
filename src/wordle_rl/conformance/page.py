"""The report as one page: no script, no request, readable in light and dark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from typing import Any

from wordle_rl.conformance.results import CheckResult, ConformanceReport, Status
from wordle_rl.report.html.page import fill

_SAID = {"pass": "passed", "fail": "failed", "skip": "skipped", "error": "broke off"}


def render(report: ConformanceReport) -> str:
    """The page as text."""
    facts = report.facts
    words = facts.get("words")
    known = [facts.get("date"), f"words {words['name']}" if isinstance(words, Mapping) else None]
    return fill(
        _asset("wordle_rl.conformance", "page.html"),
        {
            "style": _asset("wordle_rl.report.html", "page.css") + _asset("wordle_rl.conformance", "page.css"),
            "title": escape(report.target),
            "subtitle": " · ".join(escape(str(fact)) for fact in known if fact),
            "verdict": "It conforms" if report.conforms else "It does not conform",
            "cards": "".join(_card(name, number) for name, number in report.counts.items()),
            "checks": "".join(map(_check, report.results)),
            "facts": _rows(facts),
        },
    )


def _asset(package: str, name: str) -> str:
    return (files(package) / name).read_text(encoding="utf-8")


def _card(name: str, number: int) -> str:
    return f'<div class="card"><div class="label">{_SAID[name]}</div><div class="big">{number}</div></div>'


def _check(result: CheckResult) -> str:
    seen = "".join(f"<li>{escape(line)}</li>" for line in result.evidence)
    remedy = f"<p>To mend it: {escape(result.remediation)}.</p>" if result.remediation else ""
    measured = f"<details><summary>Measured</summary><table class='amounts'>{_rows(result.measured)}</table></details>"
    name = result.status.value
    errs = f"{result.error_level[:1].upper()}{result.error_level[1:]}." if result.status is not Status.SKIP else ""
    return (
        f'<div class="card wide finding {name}"><h3><b>{_SAID[name]}</b> {escape(result.title)} '
        f"<code>{escape(result.check_id)}</code></h3><ul>{seen}</ul>{remedy}"
        f"<p class='muted'>{escape(errs)}</p>{measured if result.measured else ''}</div>"
    )


def _rows(values: Mapping[str, Any]) -> str:
    return "".join(
        f"<tr><th>{escape(str(key))}</th><td>{escape(_text(value))}</td></tr>" for key, value in values.items()
    )


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
