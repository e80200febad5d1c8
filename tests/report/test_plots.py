"""Laws of charts: a value stands where it belongs, ticks are few and differ, and a chart brings nothing of its own."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from scripted_evaluations import play_script

from wordle_rl.cli.compare import files_at
from wordle_rl.evaluate import compare_all
from wordle_rl.report import ReportError
from wordle_rl.report.curves import stage_curves
from wordle_rl.report.plots import (
    COLORS,
    DASHES,
    MAX_POINTS,
    Series,
    bar_chart,
    line_chart,
    thinned,
    win_rate_plot,
    wins_plot,
)

WON, LOST = ("crane", ["crane"]), ("crane", ["speed"] * 6)


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


def ticks(svg: ElementTree.Element) -> list[str]:
    """The ticks of the axis of values."""
    return [text.text or "" for text in svg.iter() if text.tag.endswith("text") and "end" in text.get("style", "")]


def test_long_curves_are_thinned_and_keep_their_mean_and_ends() -> None:
    steps, values = np.arange(1.0, 5001.0), np.sin(np.arange(5000) / 300) + 2
    curve = thinned(Series("a", steps, values))
    assert len(curve.steps) == len(curve.values) == MAX_POINTS
    assert (curve.steps[0], curve.steps[-1]) == (1, 5000)
    assert np.mean(curve.values) == pytest.approx(values.mean(), abs=0.01)


def test_a_curve_is_drawn_where_its_values_are() -> None:
    [[(left, bottom), (middle, top), (right, half)]] = curves(chart(0.0, 1.0, 0.5))
    assert left < middle < right
    assert middle == pytest.approx((left + right) / 2, abs=0.01)
    assert top < half < bottom
    assert half == pytest.approx((top + bottom) / 2, abs=0.01)


def test_the_values_under_the_pointer_come_with_the_chart() -> None:
    svg = chart(1.0, 3.0, 2.0)
    left, right, top, bottom, first, last = map(float, svg.get("data-frame").split(","))
    [points] = curves(svg)
    assert (left, right) == pytest.approx((points[0][0], points[-1][0]), abs=0.01)
    assert top < bottom
    assert (first, last) == (0, 2)
    assert json.loads(svg.get("data-series")) == [{"n": "a", "x": [0, 1, 2], "y": [1, 3, 2]}]


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
    [curve] = json.loads(ElementTree.fromstring(cost.svg).get("data-series"))
    assert (curve["x"], curve["y"]) == ([0, 30, 100], [4.0, 3.6, 3.8])


def test_a_loss_that_falls_far_is_drawn_by_ratios() -> None:
    rows = [{"step": step, "loss": loss} for step, loss in ((1, 16.0), (2, 4.0), (3, 1.0), (4, 0.25))]
    [loss] = stage_curves({"sft": rows}, "sft").charts
    [points] = curves(ElementTree.fromstring(loss.svg))
    assert np.diff([y for _, y in points], n=2) == pytest.approx([0, 0], abs=0.01)
    assert len(ticks(ElementTree.fromstring(loss.svg))) >= 2


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


def test_a_run_without_turns_has_its_wins_alone_and_one_without_wins_is_refused() -> None:
    rows = [{"step": 1, "cumulative_wins": 1.0}, {"step": 2, "cumulative_wins": 4.0}]
    assert len(curves(ElementTree.fromstring(wins_plot({"grpo": rows}, "run")))) == 1
    with pytest.raises(ReportError):
        wins_plot({"sft": METRICS["sft"]}, "run")


def points(svg: str) -> list[tuple[float, float]]:
    """Where the markers of the evaluations stand, from left to right."""
    used = [each for each in ElementTree.fromstring(svg).iter() if each.tag.endswith("use")]
    return sorted((float(each.get("x")), float(each.get("y"))) for each in used)


def compared(*named: tuple[str, tuple]):
    games = [play_script([game, ("trace", ["trace"])], name=name) for name, game in named]
    return compare_all(games).runs


def test_steps_stand_where_they_belong_and_better_is_higher() -> None:
    runs = compared(("start", LOST), ("step-10", LOST), ("step-40", WON), ("end", WON))
    (start, ten, forty, end) = points(win_rate_plot(runs, "wins & more"))
    assert start[0] < ten[0] < forty[0] < end[0]
    assert (forty[0] - start[0]) == pytest.approx(4 * (ten[0] - start[0]), abs=0.3)
    assert forty[1] == end[1] < start[1] == ten[1]


def test_a_directory_of_checkpoints_means_its_files_in_order(tmp_path: Path) -> None:
    for name in ("end", "step-100", "start", "step-20"):
        (tmp_path / f"{name}.json").touch()
    assert [path.stem for path in files_at(tmp_path)] == ["start", "step-20", "step-100", "end"]
    (alone,) = files_at(tmp_path / "start.json")
    assert alone == tmp_path / "start.json"


def test_the_command_writes_the_plot(cli, tmp_path: Path) -> None:
    for name, game in (("start", LOST), ("step-5", WON)):
        play_script([game, ("trace", ["trace"])], name=name).save(tmp_path / f"{name}.json")
    code, out, _ = cli("compare", tmp_path, "--svg", tmp_path / "wins.svg")
    assert code == 0
    assert "step-5" in out
    assert len(points((tmp_path / "wins.svg").read_text())) == 2
