import json
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pages import parse_page

from wordle_rl.report.html.charts import (
    MAX_POINTS,
    Series,
    bar_of_shares,
    format_value,
    line_chart,
    log_ticks,
    nice_ticks,
    running_mean,
)
from wordle_rl.report.html.stage_curves import curves_of, curves_section


def test_long_curves_are_thinned_and_keep_their_mean_and_ends() -> None:
    steps, values = np.arange(1.0, 5001.0), np.sin(np.arange(5000) / 300) + 2
    html = line_chart("t", "n", [Series("a", steps, values)])
    [(_, attrs)] = [tag for tag in parse_page(html).tags if "data-series" in tag[1]]
    [curve] = json.loads(attrs["data-series"] or "")
    assert len(curve["x"]) == len(curve["y"]) == MAX_POINTS
    assert (curve["x"][0], curve["x"][-1]) == (1, 5000)
    assert np.mean(curve["y"]) == pytest.approx(values.mean(), abs=0.01)


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6))
def test_ticks_enclose_both_ends_in_a_few_even_steps(low: float, span: float) -> None:
    ticks = nice_ticks(low, low + span)
    assert ticks[0] <= low + 1e-6 * span
    assert ticks[-1] >= low + span - 1e-6 * span
    assert 2 <= len(ticks) <= 7
    assert np.allclose(np.diff(ticks), ticks[1] - ticks[0], rtol=1e-3)


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=100))
def test_a_running_mean_is_the_mean_of_its_window(values: list[float]) -> None:
    reach = max(1, len(values) // 20)
    slow = [np.mean(values[max(0, i - reach) : i + reach + 1]) for i in range(len(values))]
    assert running_mean(np.array(values)) == pytest.approx(np.array(slow), abs=1e-9)


def test_a_curve_is_drawn_where_its_values_are() -> None:
    html = line_chart("t", "n", [Series("a", np.array([0.0, 5.0, 10.0]), np.array([0.0, 1.0, 0.5]))])
    [(_, line)] = [tag for tag in parse_page(html).tags if tag[0] == "polyline"]
    points = [tuple(map(float, point.split(","))) for point in (line["points"] or "").split()]
    (left, bottom), (middle, top), (right, half) = points
    assert left < middle < right
    assert middle == pytest.approx((left + right) / 2)
    assert top < half < bottom
    assert half == pytest.approx((top + bottom) / 2)


@pytest.mark.parametrize("value", [0.0, 0.4, 1.0])
def test_the_axis_of_a_flat_rate_stays_between_nothing_and_all(value: float) -> None:
    html = line_chart("t", "n", [Series("a", np.array([0.0, 5.0]), np.array([value, value]))], percent=True)
    [(_, attrs)] = [tag for tag in parse_page(html).tags if "data-frame" in tag[1]]
    low, high = map(float, (attrs["data-frame"] or "").split(",")[-2:])
    assert 0 <= low <= value <= high <= 1
    assert high - low <= 0.2


def test_a_single_value_is_a_dot() -> None:
    html = line_chart("t", "n", [Series("a", np.array([3.0]), np.array([0.0]))])
    assert [tag for tag, _ in parse_page(html).tags].count("circle") == 1


def test_several_curves_are_named_with_their_first_and_last_values() -> None:
    steps = np.array([1.0, 2.0])
    html = line_chart("t", "n", [Series("up", steps, steps / 4), Series("down", steps, -steps)], percent=True)
    page = parse_page(html)
    assert "up 25.0 % → 50.0 %down -100.0 % → -200.0 %" in page.text
    classes = {attrs["class"] for tag, attrs in page.tags if tag == "polyline"}
    assert classes == {"line s0", "line s1"}


def test_curves_of_one_chart_differ_in_more_than_colour() -> None:
    css = (Path(__file__).parents[3] / "src/wordle_rl/report/html/page.css").read_text()
    dashes = [re.search(rf"\.line\.s{place} \{{ stroke-dasharray: ([\d ]+);", css) for place in range(1, 8)]
    assert len({dash[1] for dash in dashes if dash}) == 7


def test_shares_add_up_and_the_largest_comes_first() -> None:
    text = parse_page(bar_of_shares([("small", 1.0), ("large", 3.0)], "s")).text
    assert text == "large3 s75.0 %small1 s25.0 %"


@pytest.mark.parametrize(
    ("value", "percent", "shown"),
    [
        (0.5, True, "50.0 %"),
        (3.0, False, "3"),
        (12345.0, False, "12,345"),
        (1234.5, False, "1,234"),
        (1e-20, False, "0"),
    ],
)
def test_numbers_are_short(value: float, percent: bool, shown: str) -> None:
    assert format_value(value, percent) == shown


@pytest.mark.parametrize("ends", [(7.998, 8.006), (1.0001, 1.0021), (3.5401, 3.5465), (123456.0, 124456.0)])
def test_no_two_ticks_of_an_axis_read_alike(ends: tuple[float, float]) -> None:
    html = line_chart("t", "n", [Series("a", np.array([0.0, 5.0]), np.array(ends))])
    labels = re.findall(r'text-anchor="end">([^<]+)</text>', html)[:-1]
    assert len(labels) == len(set(labels)) >= 2
    assert max(map(len, labels)) <= 7


def test_values_that_hardly_differ_are_a_flat_line() -> None:
    html = line_chart("t", "n", [Series("a", np.array([0.0, 5.0]), np.array([1.0, 1.00001]))])
    [(_, line)] = [tag for tag in parse_page(html).tags if tag[0] == "polyline"]
    first, last = (float(point.split(",")[1]) for point in (line["points"] or "").split())
    assert first == pytest.approx(last, abs=0.2)


def test_the_bound_of_checkpoint_selection_is_no_curve_of_sft_validation() -> None:
    rows = [{"step": step, "cost": 4.0, "validation_cost": 3.0} for step in (0, 20)]
    series = [json.loads(attrs["data-series"] or "") for _, attrs in parse_page(curves_section("validation", rows)).tags
              if "data-series" in attrs]  # fmt: skip
    assert [len(curves) for curves in series] == [1, 1]
    rows = [{"step": 10, "loss": 1.0}, {"step": 10, "validation_loss": 2.0}]
    [(_, attrs)] = [tag for tag in parse_page(curves_section("sft", rows)).tags if "data-series" in tag[1]]
    assert [curve["n"] for curve in json.loads(attrs["data-series"] or "")] == ["training", "validation"]


def test_weights_on_the_way_are_drawn_between_its_ends() -> None:
    metrics = {
        "validation": [
            {"step": 0, "greedy_cost": 4.0},
            {"step": 20, "greedy_cost": 3.5},
            {"step": 40, "greedy_cost": 3.8},
        ],
        "blend": [{"step": 30, "greedy_cost": 3.6}],
    }
    [(_, attrs)] = [tag for tag in parse_page(curves_of(metrics, "blend")).tags if "data-series" in tag[1]]
    [curve] = json.loads(attrs["data-series"] or "")
    assert (curve["x"], curve["y"]) == ([0, 30, 100], [4.0, 3.6, 3.8])


def test_a_loss_that_falls_far_is_drawn_by_ratios() -> None:
    rows = [{"step": step, "loss": loss} for step, loss in ((1, 16.0), (2, 4.0), (3, 1.0), (4, 0.25))]
    [(_, attrs)] = [tag for tag in parse_page(curves_section("sft", rows)).tags if tag[0] == "polyline"]
    heights = [float(point.split(",")[1]) for point in (attrs["points"] or "").split()]
    assert np.diff(heights, n=2) == pytest.approx([0, 0], abs=0.11)
    evenly = curves_section("sft", rows[1:])
    assert "logarithmic" not in evenly


@given(st.floats(1e-6, 1e3), st.floats(20, 1e6))
def test_ticks_by_ratio_enclose_what_is_drawn(low: float, ratio: float) -> None:
    ticks = log_ticks(low, low * ratio)
    assert ticks[0] <= low
    assert ticks[-1] >= low * ratio
    assert 2 <= len(ticks) <= 12
    assert all(a < b for a, b in pairwise(ticks))
