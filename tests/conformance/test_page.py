"""Laws of the page: everything found is on it, nothing is run by it, and no text of a target becomes markup."""

from pages import parse_page

from wordle_rl.conformance.page import render
from wordle_rl.conformance.results import CheckResult, ConformanceReport, Status


def result(status: Status, **changes: object) -> CheckResult:
    values = {
        "check_id": f"wordle.{status.value}",
        "title": f"A check that {status.value}s",
        "status": status,
        "measured": {"games": 30, "rate": 0.123456789},
        "evidence": ("30 games were played",),
        "remediation": "count again" if status is Status.FAIL else None,
        "error_level": "never errs",
        "duration_s": 0.1,
    }
    return CheckResult(**{**values, **changes})  # type: ignore[arg-type]


REPORT = ConformanceReport("http://127.0.0.1:8000", {"date": "2026-11-23"}, tuple(map(result, Status)))


def test_every_finding_is_on_the_page() -> None:
    page = render(REPORT)
    for each in REPORT.results:
        assert each.check_id in page
        assert each.title in page
    assert page.count("To mend it: count again.") == 1
    assert "It does not conform" in page
    assert "0.123457" in page
    assert "2026-11-23" in page


def test_nothing_on_the_page_is_run_or_fetched() -> None:
    page = render(REPORT)
    assert "script" not in {tag for tag, _ in parse_page(page).tags}
    assert "default-src 'none'" in page
    assert not [word for word in ("src=", "@import", "url(") if word in page]


def test_no_text_of_a_target_becomes_markup() -> None:
    nasty = "<img src=x onerror=alert(1)>{{style}}"
    bad = result(Status.FAIL, evidence=(nasty,), measured={nasty: nasty}, remediation=nasty, title=nasty)
    page = render(ConformanceReport(nasty, {nasty: nasty}, (bad,)))
    assert "img" not in {tag for tag, _ in parse_page(page).tags}
    assert page.count("{{style}}") >= 4
