"""Law of the page on conformance: its example runs."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "conformance.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_example_runs(capsys) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    exec(compile(block, "conformance.md", "exec"), {})
    assert capsys.readouterr().out == "True {'pass': 20, 'fail': 0, 'skip': 0, 'error': 0}\n"
