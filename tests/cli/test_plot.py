"""Law of `plot`: a run's own metrics as a file, or a refusal in one line."""

import pytest


def test_wins_of_a_run_are_drawn(cli, finished_run, tmp_path) -> None:
    code, out, _ = cli("plot", "wins", finished_run, "--out", tmp_path / "wins.svg")
    assert code == 0
    assert "wins.svg" in out
    drawn = (tmp_path / "wins.svg").read_text()
    assert "wins so far" in drawn
    assert "by turn 6" in drawn
    code, _, _ = cli("plot", "wins", finished_run / "metrics.jsonl", "--out", tmp_path / "file.svg")
    assert code == 0
    assert "by turn 6" in (tmp_path / "file.svg").read_text()


@pytest.mark.parametrize(("figure", "where"), [("losses", "run"), ("wins", "nowhere")])
def test_another_figure_or_no_run_is_one_line(cli, tmp_path, figure, where) -> None:
    code, _, err = cli("plot", figure, tmp_path / where, "--out", tmp_path / "x.svg")
    assert code == 2
    assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "x.svg").exists()
