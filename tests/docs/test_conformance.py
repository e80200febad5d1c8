"""Law of the page on conformance: its example runs."""

import re
from pathlib import Path

import pytest

from wordle_rl.conformance.trainer_checks import examine_trainer

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "conformance.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_examples_run(capsys, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    block, adapter = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    exec(compile(block, "conformance.md", "exec"), {})
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 12
    assert all(line.startswith("pass ") for line in shown)
    found: dict = {}
    exec(compile(adapter, "conformance.md", "exec"), found)
    assert [each.status for each in examine_trainer(found["adapter"])] == ["pass", "pass", "pass", "skip", "skip"]
