"""Laws of the weights on the page: shares sum to one, switches and kept order show, and no reward is no section."""

import json
from pathlib import Path

import pytest
from report_runs import make_run, read_page

from wordle_rl.config import RunConfig
from wordle_rl.report.html.reward_weights import weight_shares, weights_section
from wordle_rl.reward import PRESETS, Rubric


def section(**reward: object) -> str:
    return weights_section(RunConfig.model_validate({"rl": {"reward": reward}} if reward else {}).stored())


@pytest.mark.parametrize("preset", PRESETS)
def test_shares_sum_to_one(preset: str) -> None:
    shares = weight_shares(Rubric(PRESETS[preset].weights))
    assert sum(shares.values()) == pytest.approx(1.0)
    assert all(share > 0 for share in shares.values())


def test_weights_as_set_have_the_shares_that_hand_arithmetic_gives() -> None:
    page = section(weights={"format": 1.0, "feedback": 0.5, "information": 0.3}, keep_order=False)
    assert [share in page for share in ("55.6 %", "27.8 %", "16.7 %")] == [True] * 3
    assert "<h3>" not in page


def test_a_weight_that_keeps_the_order_is_shown_beside_the_one_set() -> None:
    page = section(preset="shaped")
    assert "<th scope='row'>win</th><td>–</td>" in page


def test_weights_of_components_from_outside_are_shown_as_set_and_nothing_is_imported() -> None:
    stored = RunConfig().stored()
    stored["rl"]["reward"]["weights"] = {"win": 1.0, "theirs:<b>": 0.25, "theirs:vowels": 0.125}
    page = weights_section(stored)
    assert "theirs:vowels</th><td>0.125</td>" in page
    assert "<b>" not in page


def test_both_sets_of_a_switch_are_shown() -> None:
    page = section(preset="shaped_curriculum")
    assert "At first" in page
    assert "From a format compliance of 90 % on" in page


def test_a_run_that_no_reward_pays_has_no_section() -> None:
    for values in ({"algorithm": "distill"}, {"grpo": {"steps": 0}}):
        assert weights_section(RunConfig.model_validate(values).stored()) == ""
    assert weights_section({"model": {"path": "tiny"}}) == ""


def test_the_page_has_it(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "config.json").write_text(json.dumps(RunConfig().stored()))
    assert "Weights of the reward" in read_page(run).text
