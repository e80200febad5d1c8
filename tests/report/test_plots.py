"""Laws of charts: a value stands where it belongs, ticks are few and differ, and a chart brings nothing of its own."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from wordle_rl.report import ReportError
from wordle_rl.report.curves import stage_curves
from wordle_rl.report.plots import (
    COLORS,
    DASHES,
    Series,
    bar_chart,
    line_chart,
    wins_plot,
)


def chart(*values: float, **how: object) -> ElementTree.Element:
    steps = np.arange(float(len(values)))
    return ElementTree.fromstring(line_chart("t", [Series("a", steps, np.array(values))], **how))


def curves(svg: ElementTree.Element) -> list[list[tuple[float, float]]]:
    """Points of each curve, in the order in which they were drawn."""
    found = []
    for path in svg.iter():
        points = re.findall(r"[ML] ([-\d.]+) ([-\d.]+)", path.get("d", ""))
        if "stroke-width: 2" in path.get("style", "") and points:
            found.append([(float(x), float(y)) for x, y in points])
    return found


def test_a_curve_is_drawn_where_its_values_are() -> None:
    [[(left, bottom), (middle, top), (right, half)]] = curves(chart(0.0, 1.0, 0.5))
    assert left < middle < right
    assert middle == pytest.approx((left + right) / 2, abs=0.01)
    assert top < half < bottom
    assert half == pytest.approx((top + bottom) / 2, abs=0.01)


def test_a_chart_of_the_page_has_colours_by_name_and_no_style_for_all() -> None:
    series = [Series(str(place), np.arange(3.0), np.arange(3.0) * place) for place in range(len(COLORS))]
    for svg in (line_chart("a <b>", series), bar_chart("a <b>", ["1", "2"], {"x": [0.5, 0.5], "y": [0.1, 0.9]})):
        assert "<style" not in svg
        assert "font-family" not in svg
        assert not re.search(r"#[0-9a-f]{6}\b", svg.replace("#ffffff", ""))
        assert "a &lt;b&gt;" in svg
        ids = re.findall(r' id="([^"]+)"', svg)
        assert all(f"#{name}" in svg for name in ids)
    assert len(set(DASHES)) == len(COLORS) == len(DASHES)


# --- curves of a stage -----------------------------------------------------------------------------------------------


def test_a_metric_that_nobody_knows_is_drawn_and_one_that_never_changes_is_named() -> None:
    rows = [
        {"step": step, "mystery": float(step), "learning_rate": 0.5, "grad_norm": 2.0, "reward/win": 0.1 * step}
        for step in (1, 2)
    ]
    found = stage_curves({"dpo": rows}, "dpo")
    assert [each.title for each in found.charts] == ["Reward components", "Mystery"]
    assert [name for name, *_ in found.charts[0].legend] == ["win"]
    assert found.numbers == [("learning rate", "0.5"), ("Gradient norm", "2")]


def test_weights_on_the_way_are_drawn_between_its_ends() -> None:
    metrics = {
        "validation": [
            {"step": 0, "greedy_cost": 4.0},
            {"step": 20, "greedy_cost": 3.5},
            {"step": 40, "greedy_cost": 3.8},
        ],
        "blend": [{"step": 30, "greedy_cost": 3.6}],
    }
    [cost] = stage_curves(metrics, "blend").charts
    [[(start, top), (way, low), (end, middle)]] = curves(ElementTree.fromstring(cost.svg))
    assert way - start == pytest.approx(0.3 * (end - start), abs=0.01), "0, 30 and 100 percent of the way"
    assert top < middle < low, "costs 4.0, 3.6 and 3.8"


# --- files -----------------------------------------------------------------------------------------------------------


def wins_row(step: int, wins: int, rates: tuple[float, ...]) -> dict[str, float]:
    return {"step": step, "cumulative_wins": wins, **{f"win_rate_by_turn/{k}": r for k, r in enumerate(rates, 1)}}


METRICS = {"sft": [{"step": 1, "loss": 2.0}], "grpo": [wins_row(1, 3, (0.0, 0.25)), wins_row(2, 8, (0.1, 0.5))]}


def test_wins_and_wins_by_turn_are_drawn_from_what_was_counted() -> None:
    total, *by_turn = curves(ElementTree.fromstring(wins_plot(METRICS, "a <run>")))
    assert len([points for points in by_turn if len(points) == 2]) >= 2
    (x1, y1), (x2, y2) = total
    assert x2 > x1
    assert y2 < y1, "later wins stand higher"


def test_a_metrics_file_alone_is_enough_for_its_wins(cli, tmp_path: Path) -> None:
    rows = [{"stage": stage, **row} for stage, of_stage in METRICS.items() for row in of_stage]
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    code, _, err = cli("report", tmp_path / "metrics.jsonl", "--wins", tmp_path / "wins.svg")
    assert code == 0, err
    assert curves(ElementTree.parse(tmp_path / "wins.svg").getroot())


def test_a_run_without_wins_is_refused() -> None:
    with pytest.raises(ReportError):
        wins_plot({"sft": METRICS["sft"]}, "run")
