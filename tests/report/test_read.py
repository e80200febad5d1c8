import re
from pathlib import Path

import pytest
from report_runs import make_run, metric_row, read_page, write_lines

from wordle_rl.report import ReportError, read_run, write_report
from wordle_rl.runs import RunError

PARTS = (
    "results.json",
    "manifest.json",
    "config.json",
    "metrics.jsonl",
    "games.jsonl",
    "eval/sft.json",
    "eval/grpo.json",
)


@pytest.mark.parametrize("part", PARTS)
def test_a_missing_part_is_named_and_the_rest_is_shown(tmp_path: Path, part: str) -> None:
    run_dir = make_run(tmp_path / "run")
    (run_dir / part).unlink()
    text = read_page(run_dir).text
    assert f"Not in this run, so not on this page: {part}." in text


@pytest.mark.parametrize("part", ["metrics.jsonl", "games.jsonl"])
@pytest.mark.parametrize("line", ["{", "[]", '{"stage": 3}'])
def test_a_damaged_line_is_named_with_its_number(tmp_path: Path, part: str, line: str) -> None:
    run_dir = make_run(tmp_path / "run")
    path = run_dir / part
    sound = path.read_text()
    path.write_text(sound + line + "\n")
    with pytest.raises((RunError, ReportError), match=rf"{re.escape(part)}:{sound.count(chr(10)) + 1} "):
        write_report(run_dir)
    assert not (run_dir / "report.html").exists()


def test_a_directory_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="no run directory"):
        write_report(tmp_path / "nowhere")
    with pytest.raises(ReportError, match="no part of a run"):
        write_report(tmp_path)


def test_a_step_logged_again_after_a_resume_counts_once(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "run")
    write_lines(run_dir / "metrics.jsonl", [metric_row(3), metric_row(1), metric_row(2), metric_row(2, loss=5.0)])
    rows = read_run(run_dir).metrics["grpo"]
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert rows[1]["loss"] == 5.0


def test_values_that_are_no_numbers_leave_a_gap(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "run")
    rows = [
        metric_row(step) | {"entropy": value} for step, value in enumerate((0.5, None, float("nan"), 0.25), start=1)
    ]
    write_lines(run_dir / "metrics.jsonl", rows)
    html = write_report(run_dir).read_text()
    assert "Entropy: policy 0.5 → 0.25 from step 1 to 4" in html
    assert "nan" not in html.split("<script", 1)[0].lower()
