"""Law of the example: its picture is true, and its step makes the better game likelier than before."""

import runpy
from pathlib import Path

import pytest

pytest.importorskip("torch")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "grpo_step.py"


def test_one_step_makes_the_better_game_likelier_than_the_worse(capsys) -> None:
    games = runpy.run_path(str(EXAMPLE))["main"]()
    best, worst = (after - before for _, before, after in (max(games), min(games)))
    assert best > 0.05
    assert worst < -0.05
    picture, rewards, advantages, *_ = capsys.readouterr().out.splitlines()
    assert picture.startswith("⟦<guess>")
    assert picture.endswith("<|end|>⟧")
    assert "⟧⟦" not in picture, "an observation stands between two actions"
    totals, compared = ([float(text) for text in line.split()[1:]] for line in (rewards, advantages))
    assert max(totals) > min(totals)
    assert [a + sum(totals) / len(totals) for a in compared] == pytest.approx(totals, abs=0.02)
