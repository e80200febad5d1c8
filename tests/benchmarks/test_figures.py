"""The figures of README and docs are those of their records."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import figures


def test_every_figure_is_that_of_its_record() -> None:
    assert len(list(figures.claims())) > 60
    assert figures.missing() == []


def test_a_figure_that_was_edited_is_told(monkeypatch) -> None:
    monkeypatch.setattr(figures, "claims", lambda: [("README.md", "| 99.9 | 99.9 |")])
    assert figures.missing() == ["README.md lacks: | 99.9 | 99.9 |"]
