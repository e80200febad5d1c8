"""Law of the page on conformance: its example runs."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "conformance.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_example_runs(capsys) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    exec(compile(block, "conformance.md", "exec"), {})
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 20
    assert all(line.startswith("pass ") for line in shown)
