"""Laws of the plot of wins: it shows what metrics.jsonl counted, whichever backend wrote it."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from wordle_rl.report import ReportError
from wordle_rl.report.wins_plot import wins_plot


def row(step: int, wins: int, rates: tuple[float, ...]) -> dict[str, float]:
    return {"step": step, "cumulative_wins": wins, **{f"win_rate_by_turn/{k}": r for k, r in enumerate(rates, 1)}}


METRICS = {"sft": [{"step": 1, "loss": 2.0}], "grpo": [row(1, 3, (0.0, 0.25)), row(2, 8, (0.1, 0.5))]}


def test_both_panels_are_drawn_and_well_formed() -> None:
    drawn = wins_plot(METRICS, "a <run>")
    root = ElementTree.fromstring(drawn)
    titles = [element.text for element in root.iter() if element.tag.endswith("title")]
    assert titles == ["wins so far: 8 at step 2", "by turn 1: 10.0 % at step 2", "by turn 2: 50.0 % at step 2"]
    assert "a &lt;run&gt;" in drawn
    assert len(re.findall("<polyline", drawn)) == 3


def test_later_wins_stand_higher_and_further_right() -> None:
    points = re.search(r'<polyline points="([^"]+)"', wins_plot(METRICS, "run"))
    (x1, y1), (x2, y2) = (map(float, point.split(",")) for point in points[1].split())
    assert x2 > x1
    assert y2 < y1


def test_an_older_run_without_turns_has_its_wins_alone() -> None:
    drawn = wins_plot({"grpo": [{"step": 1, "cumulative_wins": 1.0}, {"step": 2, "cumulative_wins": 4.0}]}, "run")
    assert drawn.count("<polyline") == 1


def test_a_run_that_counted_no_wins_is_refused() -> None:
    with pytest.raises(ReportError, match="counts no wins of training games; name a run that was trained by GRPO"):
        wins_plot({"sft": METRICS["sft"]}, "run")
