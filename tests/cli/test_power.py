"""Laws of `power`, and of what `eval` says its games can show."""

import json
from dataclasses import replace

import pytest
from scripted_evaluations import play_script

from wordle_rl.cli.eval import power_line
from wordle_rl.evaluate.stats import games_needed, smallest_difference


def test_the_games_of_two_rates_are_counted(cli) -> None:
    code, out, _ = cli("power", "60", "70", "--json")
    assert code == 0
    assert json.loads(out)["games_each"] == games_needed(0.6, 0.7)


@pytest.mark.parametrize("rates", [("60", "60"), ("60", "170"), ("60",)])
def test_what_is_no_pair_of_rates_is_refused_in_a_line(cli, rates) -> None:
    code, _, err = cli("power", *rates)
    assert code == 2
    assert len(err.strip().splitlines()) == 1


def test_an_evaluation_says_what_its_largest_part_can_show() -> None:
    figures = play_script([("crane", ["crane"]), ("grape", ["grape"])]).figures()
    few, many = replace(figures, num_games=20, win_rate=0.6), replace(figures, num_games=200, win_rate=0.6)
    assert f"{100 * smallest_difference(0.4, 200):.1f} points" in power_line({"train": few, "test": many})
    assert "no difference" in power_line({"all": figures}), "two games"
    assert power_line({"all": replace(many, pass_at={"1": (0.5, 0.4, 0.6)})}) == "", (
        "games of a secret are no new words"
    )
