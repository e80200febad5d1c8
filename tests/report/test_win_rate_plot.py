"""Laws of the plot of win rates: a point for each evaluation, at its step where the names are steps."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from scripted_evaluations import play_script

from wordle_rl.cli.compare import files_at
from wordle_rl.evaluate import compare_all
from wordle_rl.report.win_rate_plot import win_rate_plot

WON, LOST = ("crane", ["crane"]), ("crane", ["speed"] * 6)


def points(svg: str) -> list[tuple[float, float]]:
    root = ElementTree.fromstring(svg)
    circles = root.iter("{http://www.w3.org/2000/svg}circle")
    return [(float(circle.attrib["cx"]), float(circle.attrib["cy"])) for circle in circles]


def compared(*named: tuple[str, tuple]):
    games = [play_script([game, ("trace", ["trace"])], name=name) for name, game in named]
    return compare_all(games).runs


def test_steps_stand_where_they_belong_and_better_is_higher() -> None:
    runs = compared(("start", LOST), ("step-10", LOST), ("step-40", WON), ("end", WON))
    svg = win_rate_plot(runs, "wins & more")
    (start, ten, forty, end) = points(svg)
    assert start[0] < ten[0] < forty[0] < end[0]
    assert (forty[0] - start[0]) == pytest.approx(4 * (ten[0] - start[0]), abs=0.3)
    assert forty[1] == end[1] < start[1] == ten[1]
    assert svg.count("<polyline") == 1
    assert len(re.search(r'points="([^"]+)"', svg)[1].split()) == 3, "the end is apart from the curve"
    assert ">step</text>" in svg


def test_other_names_stand_one_after_the_other() -> None:
    svg = win_rate_plot(compared(("base", LOST), ("sft", WON), ("grpo", WON)), "wins")
    (a, b, c) = (x for x, _ in points(svg))
    assert b - a == pytest.approx(c - b, abs=0.2)
    assert ">step</text>" not in svg


def test_a_directory_of_checkpoints_means_its_files_in_order(tmp_path: Path) -> None:
    for name in ("end", "step-100", "start", "step-20"):
        (tmp_path / f"{name}.json").touch()
    assert [path.stem for path in files_at(tmp_path)] == ["start", "step-20", "step-100", "end"]
    (alone,) = files_at(tmp_path / "start.json")
    assert alone == tmp_path / "start.json"


def test_the_command_writes_the_plot(cli, tmp_path: Path) -> None:
    for name, game in (("start", LOST), ("step-5", WON)):
        play_script([game, ("trace", ["trace"])], name=name).save(tmp_path / f"{name}.json")
    code, out, _ = cli("compare", tmp_path, "--svg", tmp_path / "wins.svg", "--top", 0)
    assert code == 0
    assert "step-5" in out
    assert len(points((tmp_path / "wins.svg").read_text())) == 2
