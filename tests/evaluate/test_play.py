"""Laws of evaluations: figures are those of hand arithmetic, and rewards add up."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scripted import ANSWERS, NOT_SENT, WORDS, ScriptedSampler, asked_of, opened, play_script, tag

from wordle_rl.data.game_record import GameRecord, TurnRecord
from wordle_rl.env import StopReason
from wordle_rl.evaluate.figures import Figures, measure, reward_figures
from wordle_rl.evaluate.journal import evaluate_to_file
from wordle_rl.evaluate.play import WASTED_TURN_REGRET, evaluate, record_of
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.evaluate.stats import wilson_interval
from wordle_rl.game import Dictionary, Rules, score_guess
from wordle_rl.policy.scripted import SolverSampler
from wordle_rl.prompt import Prompter
from wordle_rl.reward import Rubric
from wordle_rl.solver import Solver

SOLVER = Solver(WORDS)
PROMPTER = Prompter()


GAMES = [
    ("crane", ["crane"]),
    ("grape", ["drape", "drape", "what?", "zzzzz", "cat", "grape"]),
    ("speed", ["these", "geese", "lymph", "fuzzy", "nymph", "crane"]),
    ("trace", ["crane", NOT_SENT]),
]


def test_figures_match_hand_arithmetic() -> None:
    figures = play_script(GAMES).figures()
    low, high = wilson_interval(2, 3)
    # Turns of the three finished games: 1 + 6 + 6. Invalid: zzzzz, cat. Repeated: the second drape. Malformed: what?
    # Against the marks: drape again and zzzzz for grape (cat is too short to tell); geese, lymph, fuzzy, nymph and
    # crane for speed, since "these" showed an e to stay third and h to be absent.
    rates = {"invalid_rate": 2, "repeated_rate": 1, "clue_violating_rate": 2 + 5, "malformed_rate": 1}
    assert figures == Figures(
        num_games=3,
        win_rate=2 / 3,
        win_rate_low=low,
        win_rate_high=high,
        mean_guesses_on_wins=(1 + 6) / 2,
        mean_guesses_with_losses=(1 + 6 + 7) / 3,
        mean_regret=None,
        num_turns=13,
        num_errors=1,
        guess_distribution={"1": 1, "2": 0, "3": 0, "4": 0, "5": 0, "6": 1, "loss": 1},
        **{name: num / 13 for name, num in rates.items()},
    )


def test_pass_at_k_is_of_secrets_that_were_played_so_often() -> None:
    lucky = [("crane", ["crane"]), ("speed", ["fuzzy"] * 6), ("grape", ["drape", "grape"])]
    unlucky = [("crane", ["fuzzy"] * 6), *lucky[1:]]
    assert play_script(lucky).figures().pass_at == {}
    found = play_script([*lucky, *unlucky * 2]).figures().pass_at
    expected = {"1": (1 / 3 + 0 + 1) / 3, "2": (2 / 3 + 0 + 1) / 3, "3": (1 + 0 + 1) / 3}
    assert {k: rate for k, (rate, _, _) in found.items()} == pytest.approx(expected)
    assert found["3"][1:] == pytest.approx(wilson_interval(2, 3))
    assert found["1"][1] < found["1"][0] < found["1"][2]
    assert {*play_script([*lucky, *unlucky, *unlucky[:2]]).figures().pass_at} == {"1", "2"}, "as often as the rarest"


def test_a_failed_request_is_an_error_and_a_spent_token_budget_a_loss() -> None:
    evaluation = play_script(GAMES)
    won, *_, failed = evaluation.records
    assert (failed.failed, failed.won, failed.error) == (True, False, NOT_SENT)
    assert failed.stop_reason is StopReason.REQUEST_FAILED
    assert evaluation.figures() == replace(play_script(GAMES[:3]).figures(), num_errors=1)
    cut_short = GameRecord("crane", (TurnRecord("crate", "GGGXG"),), stop_reason=StopReason.TOKEN_BUDGET)
    figures = measure([won, cut_short], max_turns=6)
    assert (figures.num_games, figures.num_errors, figures.win_rate) == (2, 0, 0.5)
    assert (figures.mean_guesses_with_losses, figures.guess_distribution["loss"]) == ((1 + 7) / 2, 1)


def test_regret_is_what_the_solver_says_of_the_answers_then_left() -> None:
    evaluation = play_script([("speed", ["lymph", "what?", "eerie", "fuzzy", "geese", "speed"])], regret=True)
    left, expected = np.arange(len(ANSWERS)), []
    for place, turn in enumerate(evaluation.records[0].turns):
        if turn.marks is None:
            expected.append(WASTED_TURN_REGRET)
            continue
        expected.append(SOLVER.regret(turn.guess, left, turns_left=6 - place))
        left = np.array([i for i in left if score_guess(ANSWERS[i], turn.guess) == turn.marks])
    assert [turn.notes.regret for turn in evaluation.records[0].turns] == expected
    assert evaluation.figures().mean_regret == pytest.approx(sum(expected) / 6)


def test_the_solver_wins_without_regret_and_in_the_guesses_it_promised() -> None:
    asked = asked_of(WORDS, ANSWERS, regret=True)
    figures = evaluate_to_file(asked, opened(SolverSampler(SOLVER, PROMPTER)), None, None).figures()
    assert (figures.win_rate, figures.mean_regret) == (1.0, 0.0)
    assert figures.mean_guesses_on_wins == pytest.approx(SOLVER.value(np.arange(len(ANSWERS)), turns_left=6))


def test_a_free_refusal_gives_nothing_away() -> None:
    rules = Rules(max_turns=3, dictionary=Dictionary.APP, max_refusals=1)
    evaluation = play_script([("crane", ["zzzzz", "fuzzy", "zzzzz", "crane"])], regret=True, rules=rules)
    regrets = [SOLVER.regret("fuzzy", np.arange(len(ANSWERS)), turns_left) for turns_left in (3, 2)]
    assert regrets[0] != regrets[1]
    expected = [0.0, regrets[0], WASTED_TURN_REGRET]
    assert [turn.notes.regret for turn in evaluation.records[0].turns[:3]] == expected, "no turn either"
    assert evaluation.records[0].turns_used == 3


@pytest.mark.parametrize("batch_size", [1, 5, 12, 100])
def test_batches_change_nothing(batch_size: int) -> None:
    player = opened(SolverSampler(SOLVER, PROMPTER))
    whole = evaluate(asked_of(WORDS, ANSWERS), player, record_of)
    assert evaluate(asked_of(WORDS, ANSWERS, batch_size=batch_size), player, record_of) == whole
    assert [record.secret for record in whole] == list(ANSWERS)


def test_an_evaluation_survives_its_file(tmp_path: Path) -> None:
    evaluation = play_script(GAMES, regret=True, name="sft", player="runs/a/sft", parts=("train", "held_out"))
    path = tmp_path / "eval" / "sft.json"
    evaluation.save(path)
    assert Evaluation.load(path) == evaluation
    assert list(path.parent.iterdir()) == [path]
    assert json.loads(path.read_text())["records"][0]["turns"][0]["marks"] == "GGGGG"


REWARDED = {
    0: ("crane", ["speed", "crane"]),
    1: ("trace", ["speed", "speed", "zzzzz", "no word", "speed", "speed"]),
    2: ("grape", [NOT_SENT]),
    3: ("abide", ["abide"]),
    4: ("crate", ["speed"] * 6),
}


@pytest.fixture
def records():
    script = {number: [tag(reply) for reply in replies] for number, (_, replies) in REWARDED.items()}
    rubric = Rubric({"win": 1.0, "rule_break": -0.5}, keep_order=False)
    asked = asked_of(WORDS, [secret for secret, _ in REWARDED.values()])
    return evaluate(asked, opened(ScriptedSampler(script)), partial(record_of, rubric=rubric, solver=SOLVER))


def test_the_distribution_adds_up(records) -> None:
    found = reward_figures(records, "own")
    assert found is not None
    assert (found.preset, found.num_games, found.highest) == ("own", 4, 1.0)
    assert [record.notes.reward for record in records] == [1.0, found.lowest, None, 1.0, 0.0], "an error has none"
    assert found.mean == pytest.approx((2.0 + found.lowest) / 4)
    assert found.below_zero == pytest.approx(1 / 4), "nothing is not below zero"
    assert sum(found.bin_counts) == 4
    assert len(found.bin_edges) == len(found.bin_counts) + 1
    assert (found.bin_edges[0], found.bin_edges[-1]) == (found.lowest, found.highest)
