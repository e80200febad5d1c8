"""Laws of evaluations side by side: the same figures from JSON and CSV, the same games for everyone."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from scripted_evaluations import NOT_SENT, play_script

from wordle_rl.evaluate import (
    Evaluation,
    EvaluationError,
    compare_all,
)
from wordle_rl.game import Rules

LOST = ["fuzzy"] * 6


def run(name: str, games: dict[str, Sequence[str]], **more: object) -> Evaluation:
    return play_script(list(games.items()), name=name, **more)


BASE = run("base", {"crane": ["crane"], "grape": LOST, "speed": LOST, "trace": ["crane", "trace"], "geese": [NOT_SENT]})
SFT = run(
    "sft", {"crane": ["fuzzy", "crane"], "grape": ["grape"], "speed": LOST, "trace": [NOT_SENT], "geese": ["geese"]}
)
GRPO = run("grpo", {"speed": ["speed"], "crane": ["crane"], "grape": ["grape"], "trace": ["trace"], "abide": LOST})


def test_all_figures_are_over_the_games_that_all_finished() -> None:
    found = compare_all([BASE, SFT, GRPO])
    # geese was not met by all, and trace failed once.
    assert [game.secret for game in found.games] == ["crane", "grape", "speed"]
    assert [game.guesses for game in found.games] == [(1, 2, 1), (None, 1, 1), (None, None, 1)]
    assert (found.num_games, found.num_unpaired, found.num_errors) == (3, 3, 1)
    assert [run.figures.num_games for run in found.runs] == [3, 3, 3]
    assert [run.figures.win_rate for run in found.runs] == [1 / 3, 2 / 3, 1.0]
    assert [run.figures.mean_guesses_with_losses for run in found.runs] == [15 / 3, 10 / 3, 1.0]
    assert [run.figures.num_errors for run in found.runs] == [1, 1, 0], "errors are counted in all games of a run"


def test_what_cannot_be_put_side_by_side_is_refused() -> None:
    with pytest.raises(EvaluationError, match="1 evaluations give no comparison"):
        compare_all([BASE])
    with pytest.raises(EvaluationError, match="share a name: base, base; tell them apart with --names"):
        compare_all([BASE, BASE])
    with pytest.raises(EvaluationError, match="different rules"):
        compare_all([BASE, SFT, run("c", {"crane": ["crane"]}, rules=Rules(max_turns=5))])
    with pytest.raises(EvaluationError, match="different word lists"):
        compare_all([BASE, replace(SFT, fingerprint="0" * 64)])
    with pytest.raises(EvaluationError, match="'base', 'sft' and 'c' finished no secret in common"):
        compare_all([BASE, SFT, run("c", {"abide": ["abide"]})])


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    for evaluation in (BASE, SFT, GRPO):
        evaluation.save(tmp_path / f"{evaluation.name}.json")
    return [tmp_path / "base.json", tmp_path / "sft.json", tmp_path / "grpo.json"]


def test_compare_takes_any_number_of_runs(cli, files, tmp_path: Path) -> None:
    code, out, _ = cli("compare", *files)
    assert code == 0
    assert "not corrected" in out
    code, out, _ = cli("compare", *files, "--json", "--csv", tmp_path / "runs.csv", "--names", "a", "b", "c")
    assert code == 0
    found = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert [run["name"] for run in found["runs"]] == ["a", "b", "c"]
    assert found["games"][1] == {"secret": "grape", "occurrence": 0, "guesses": [None, 1, 1]}
    expected = compare_all([BASE, SFT, GRPO])
    assert found["runs"][2]["figures"] == asdict(expected.runs[2].figures)
    assert found["runs"][2]["against_base"]["p_value"] == 0.5
    rows = list(csv.DictReader(io.StringIO((tmp_path / "runs.csv").read_text())))
    assert [row["name"] for row in rows] == ["a", "b", "c"]
    assert [row["p_value"] for row in rows] == ["", "1.0", "0.5"]
    assert [float(row["guesses_p_value"] or -1) for row in rows] == pytest.approx([-1, 1, 0.5])
    assert [row["games_1"] for row in rows] == ["1", "1", "3"]
    low, high = (float(rows[2][f"win_rate_difference_{end}"]) for end in ("low", "high"))
    assert -1 <= low < 0 < 2 / 3 <= high <= 1, "two games won more are no proof"
