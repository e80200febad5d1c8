"""Laws of the page on conformance: it names every check, its table adds up, and its example runs."""

import re
from collections import Counter
from pathlib import Path

import pytest

from wordle_rl.conformance.suite import CHECKS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "conformance.md").read_text(encoding="utf-8")
_, _, MEASURED = PAGE.partition("## Measured")
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in MEASURED.splitlines() if line.startswith("|")]


def test_every_check_is_explained_and_measured() -> None:
    explained, _, _ = PAGE.partition("## Measured")
    ids = [check.check_id for check in CHECKS]
    assert [name for name in ids if f"`{name}`" not in explained] == []
    assert sorted(re.findall(r"`([a-z_]+\.[a-z_]+)`", "\n".join(row[0] for row in ROWS))) == sorted(ids)
    assert f"against {len(ids)} black-box checks" in PAGE


def test_the_findings_add_up_to_the_totals() -> None:
    *checks, total = [row for row in ROWS if "." in row[0] or "passed" in row[0]]
    for column in range(1, len(total)):
        found = Counter(row[column] for row in checks)
        assert [found["✓"], found["✗"], found["–"]] == [int(number) for number in total[column].split(", ")]


@pytest.mark.slow
def test_the_example_runs(capsys) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    exec(compile(block, "conformance.md", "exec"), {})
    assert capsys.readouterr().out == "True {'pass': 20, 'fail': 0, 'skip': 0, 'error': 0}\n"
