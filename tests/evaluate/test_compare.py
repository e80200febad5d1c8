"""Laws of players side by side: games meet by secret and order, and every figure is one of hand arithmetic."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from scripted import ANSWERS, NOT_SENT, play_script

from wordle_rl.evaluate.compare import compare, compare_all
from wordle_rl.evaluate.records import Evaluation, EvaluationError
from wordle_rl.game import Dictionary, Rules

LOSE = ["fuzzy"] * 6


def test_comparison_matches_hand_arithmetic() -> None:
    a = play_script([("crane", ["crane"]), ("crate", ["crane", "crate"]), ("grape", LOSE), ("speed", LOSE)], name="a")
    b = play_script([("speed", LOSE), ("grape", ["grape"]), ("crate", LOSE), ("crane", ["fuzzy", "crane"])], name="b")
    comparison = compare(a, b)
    guesses = {game.secret: game.guesses for game in compare_all([a, b]).games}
    assert guesses == {"crane": (1, 2), "crate": (2, None), "grape": (None, 1), "speed": (None, None)}
    assert (comparison.both, comparison.only_a, comparison.only_b, comparison.neither) == (1, 1, 1, 1)
    assert (comparison.num_pairs, comparison.notes) == (4, ())
    assert comparison.p_value == 1.0
    assert comparison.win_rate_difference.mean == 0
    assert comparison.guesses_difference.mean == pytest.approx((1 + 5 - 6 + 0) / 4)
    assert comparison.guesses_p_value == 1.0, "1 + 5 - 6 is nothing: no flipping of signs is less uneven"


def test_repeats_of_a_secret_meet_in_order_and_spare_games_are_counted() -> None:
    a = play_script([("crane", ["crane"]), ("crane", LOSE), ("crane", LOSE), ("speed", LOSE)], name="a")
    b = play_script([("crane", LOSE), ("trace", LOSE), ("crane", LOSE)], name="b")
    games = compare_all([a, b]).games
    assert [(game.occurrence, game.guesses) for game in games] == [(0, (1, None)), (1, (None, None))]
    [note] = compare(a, b).notes
    assert note.endswith(": 3")


def test_rules_that_play_no_part_do_not_tell_games_apart() -> None:
    a = play_script([("crane", ["crane"])], name="a")
    b = play_script([("crane", ["crane"])], name="b", rules=Rules(max_refusals=1000))
    assert compare(a, b).both == 1
    app = [replace(each, rules=replace(each.rules, dictionary=Dictionary.APP)) for each in (a, b)]
    with pytest.raises(EvaluationError, match="different rules"):
        compare(*app)


def test_wins_are_tested_by_secret_where_secrets_repeat() -> None:
    a = [(secret, LOSE) for secret in ANSWERS[:3]]
    b = [(secret, [secret]) for secret in ANSWERS[:3]]
    once = compare(play_script(a), play_script(b))
    often = compare(play_script(a * 4), play_script(b * 4))
    assert once.wins_test != often.wins_test
    assert often.p_value == once.p_value == 0.25, "three secrets, whatever the number of games"
    assert (often.only_a, often.only_b) == (0, 12)
    assert often.guesses_difference.mean == once.guesses_difference.mean == 1 - 7, "the second needs fewer guesses"
    assert often.guesses_p_value == once.guesses_p_value == 0.25, "2 of 8 ways to flip three signs are as uneven"


GAMES = {
    "base": {"crane": ["crane"], "grape": LOSE, "speed": LOSE, "trace": ["crane", "trace"], "geese": [NOT_SENT]},
    "sft": {"crane": ["fuzzy", "crane"], "grape": ["grape"], "speed": LOSE, "trace": [NOT_SENT], "geese": ["geese"]},
    "grpo": {"speed": ["speed"], "crane": ["crane"], "grape": ["grape"], "trace": ["trace"], "abide": LOSE},
}
BASE, SFT, GRPO = (play_script([*games.items()], name=name) for name, games in GAMES.items())


def test_all_figures_are_over_the_games_that_all_finished() -> None:
    found = compare_all([BASE, SFT, GRPO])
    # geese was not met by all, and trace failed once.
    assert [game.secret for game in found.games] == ["crane", "grape", "speed"]
    assert [game.guesses for game in found.games] == [(1, 2, 1), (None, 1, 1), (None, None, 1)]
    assert found.num_games == 3
    assert [note.rpartition(": ")[2] for note in found.notes] == ["3", "1"], "left out: unpaired, and errors"
    assert [run.figures.num_games for run in found.runs] == [3, 3, 3]
    assert [run.figures.win_rate for run in found.runs] == [1 / 3, 2 / 3, 1.0]
    assert [run.figures.mean_guesses_with_losses for run in found.runs] == [15 / 3, 10 / 3, 1.0]
    assert [run.figures.num_errors for run in found.runs] == [1, 1, 0], "errors are counted in all games of a run"


@pytest.mark.parametrize(
    "evaluations",
    [
        [BASE],
        [BASE, BASE],
        [BASE, SFT, play_script([("crane", ["crane"])], name="c", rules=Rules(max_turns=5))],
        [BASE, replace(SFT, fingerprint="0" * 64)],
        [BASE, SFT, play_script([("abide", ["abide"])], name="c")],
    ],
    ids=["alone", "names", "rules", "words", "secrets"],
)
def test_what_cannot_be_put_side_by_side_is_refused(evaluations: list[Evaluation]) -> None:
    with pytest.raises(EvaluationError):
        compare_all(evaluations)


def test_compare_takes_any_number_of_runs(cli, tmp_path: Path) -> None:
    files = [tmp_path / f"{evaluation.name}.json" for evaluation in (BASE, SFT, GRPO)]
    for evaluation, file in zip((BASE, SFT, GRPO), files, strict=True):
        evaluation.save(file)
    assert cli("compare", *files)[0] == 0
    code, out, _ = cli("compare", *files, "--json", "--names", "a", "b", "c")
    assert code == 0
    found = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert [run["name"] for run in found["runs"]] == ["a", "b", "c"]
    assert found["games"][1] == {"secret": "grape", "occurrence": 0, "guesses": [None, 1, 1]}
    assert found["runs"][2]["figures"] == asdict(compare_all([BASE, SFT, GRPO]).runs[2].figures)
    against = [run["against_base"] for run in found["runs"][1:]]
    assert [pair["p_value"] for pair in against] == [1.0, 0.5]
    assert [pair["guesses_p_value"] for pair in against] == pytest.approx([1, 0.5])
    _, low, high = against[1]["win_rate_difference"]
    assert -1 <= low < 0 < 2 / 3 <= high <= 1, "two games won more are no proof"
