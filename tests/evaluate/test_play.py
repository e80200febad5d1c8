import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import planned
from scripted_evaluations import ANSWERS, NOT_SENT, WORDS, play_script

from wordle_rl.env import StopReason
from wordle_rl.evaluate import (
    WASTED_TURN_REGRET,
    Evaluation,
    EvaluationError,
    Figures,
    GameRecord,
    evaluate,
    figures_by_split,
    measure,
)
from wordle_rl.evaluate.stats import wilson_interval
from wordle_rl.game import Dictionary, Outcome, Rules, score_guess
from wordle_rl.prompt import Prompter
from wordle_rl.samplers.base import Sampler
from wordle_rl.samplers.simple import RandomSampler, SolverSampler
from wordle_rl.solver import Solver
from wordle_rl.words import WordList
from wordle_rl.words.split import split_secrets

SOLVER = Solver(WORDS, use_cache=False)
PROMPTER = Prompter()
PLANNED = planned(WORDS, PROMPTER)


def solver_player() -> Sampler:
    return cast(Sampler, SolverSampler(SOLVER, PROMPTER))  # its codec is inferred as None, narrower than the protocol's


def random_player() -> Sampler:
    return cast(Sampler, RandomSampler(WORDS, PROMPTER, seed=3))  # likewise


GAMES = [
    ("crane", ["crane"]),
    ("grape", ["drape", "drape", "what?", "zzzzz", "cat", "grape"]),
    ("speed", ["these", "geese", "lymph", "fuzzy", "nymph", "crane"]),
    ("trace", ["crane", NOT_SENT]),
]


# --- figures ----------------------------------------------------------------------------------------------------------


def test_figures_match_hand_arithmetic() -> None:
    figures = play_script(GAMES).figures()
    low, high = wilson_interval(2, 3)
    # Turns of the three finished games: 1 + 6 + 6. Invalid: zzzzz, cat. Repeated: the second drape. Malformed: what?
    # Against the marks: drape again and zzzzz for grape (cat is too short to tell); geese, lymph, fuzzy, nymph and
    # crane for speed, since "these" showed an e to stay third and h to be absent.
    assert figures == Figures(
        num_games=3,
        win_rate=2 / 3,
        win_rate_low=low,
        win_rate_high=high,
        mean_guesses_on_wins=(1 + 6) / 2,
        mean_guesses_with_losses=(1 + 6 + 7) / 3,
        invalid_rate=2 / 13,
        repeated_rate=1 / 13,
        clue_violating_rate=(2 + 5) / 13,
        malformed_rate=1 / 13,
        mean_regret=None,
        num_turns=13,
        num_errors=1,
        guess_distribution={"1": 1, "2": 0, "3": 0, "4": 0, "5": 0, "6": 1, "loss": 1},
    )


def test_games_played_again_make_no_figure_surer_than_their_words_do() -> None:
    games = [("crane", ["crane"]), ("speed", ["fuzzy"] * 6), ("grape", ["drape", "grape"])]
    figures = play_script(games * 8).figures()
    assert (figures.num_games, figures.win_rate) == (24, 2 / 3)
    assert (figures.win_rate_low, figures.win_rate_high) == pytest.approx(wilson_interval(2, 3))


def test_pass_at_k_is_of_secrets_that_were_played_so_often() -> None:
    lucky = [("crane", ["crane"]), ("speed", ["fuzzy"] * 6), ("grape", ["drape", "grape"])]
    unlucky = [("crane", ["fuzzy"] * 6), ("speed", ["fuzzy"] * 6), ("grape", ["drape", "grape"])]
    assert play_script(lucky).figures().pass_at == {}
    found = play_script([*lucky, *unlucky * 2]).figures().pass_at
    assert {k: rate for k, (rate, _, _) in found.items()} == pytest.approx(
        {"1": (1 / 3 + 0 + 1) / 3, "2": (2 / 3 + 0 + 1) / 3, "3": (1 + 0 + 1) / 3}
    )
    assert found["3"][1:] == pytest.approx(wilson_interval(2, 3))
    assert found["1"][1] < found["1"][0] < found["1"][2]


def test_a_failed_request_is_an_error_and_never_a_loss() -> None:
    failed = play_script(GAMES).records[3]
    assert (failed.failed, failed.error, failed.stop_reason) == (True, NOT_SENT, StopReason.REQUEST_FAILED)
    assert not failed.won
    without = play_script(GAMES[:3]).figures()
    assert play_script(GAMES).figures() == replace(without, num_errors=1)


def test_whatever_stopped_a_game_with_an_error_it_is_no_loss() -> None:
    stopped = GameRecord("crane", False, 0, StopReason.OUT_OF_TURNS, (), error="the server was restarted")
    assert (measure([stopped], max_turns=6).num_games, measure([stopped], max_turns=6).num_errors) == (0, 1)


def test_a_spent_token_budget_is_a_loss() -> None:
    won = play_script(GAMES[:1]).records[0]
    cut_short = GameRecord("crane", False, 1, StopReason.TOKEN_BUDGET, won.turns)
    figures = measure([won, cut_short], max_turns=6)
    assert (figures.num_games, figures.num_errors, figures.win_rate) == (2, 0, 0.5)
    assert figures.mean_guesses_with_losses == (1 + 7) / 2
    assert figures.guess_distribution["loss"] == 1


def test_without_games_there_is_nothing_to_average() -> None:
    figures = play_script([("trace", [NOT_SENT])]).figures()
    assert (figures.num_games, figures.num_errors, figures.num_turns) == (0, 1, 0)
    rates = {name: value for name, value in asdict(figures).items() if "rate" in name or "mean" in name}
    assert len(rates) == 11
    assert set(rates.values()) == {None}


def test_a_game_of_four_turns_counts_a_loss_as_five() -> None:
    evaluation = play_script([("speed", ["lymph", "fuzzy", "nymph", "crane"])], rules=Rules(max_turns=4))
    assert evaluation.figures().mean_guesses_with_losses == 5
    assert list(evaluation.figures().guess_distribution) == ["1", "2", "3", "4", "loss"]


def test_a_hard_mode_fault_is_invalid() -> None:
    evaluation = play_script([("crate", ["crane", "lymph", "crate"])], rules=Rules(hard_mode=True))
    assert evaluation.records[0].turns[1].outcome is Outcome.HARD_MODE
    assert evaluation.figures().invalid_rate == 1 / 3


@given(st.lists(st.sampled_from(GAMES), min_size=1, max_size=12))
def test_figures_are_shares_of_whole_counts(games: list[tuple[str, list[str]]]) -> None:
    figures = play_script(games).figures()
    assert figures.num_games + figures.num_errors == len(games)
    assert sum(figures.guess_distribution.values()) == figures.num_games
    for rate in (figures.invalid_rate, figures.repeated_rate, figures.clue_violating_rate, figures.malformed_rate):
        assert rate is None or (
            0 <= rate <= 1 and rate * figures.num_turns == pytest.approx(round(rate * figures.num_turns))
        )


# --- regret -----------------------------------------------------------------------------------------------------------


def test_regret_is_what_the_solver_says_of_the_answers_then_left() -> None:
    evaluation = play_script([("speed", ["lymph", "what?", "eerie", "fuzzy", "geese", "speed"])], solver=SOLVER)
    left = np.arange(len(ANSWERS))
    for place, turn in enumerate(evaluation.records[0].turns):
        if turn.marks is None or turn.guess is None:
            assert turn.regret == WASTED_TURN_REGRET
            continue
        assert turn.regret == SOLVER.regret(turn.guess, left, turns_left=6 - place)
        left = np.array([i for i in left if score_guess(ANSWERS[i], turn.guess) == turn.marks])
    regrets = [turn.regret or 0.0 for turn in evaluation.records[0].turns]
    assert max(regrets) > 0
    assert evaluation.figures().mean_regret == pytest.approx(sum(regrets) / 6)


def test_regret_knows_how_many_turns_are_left() -> None:
    evaluation = play_script([("speed", ["fuzzy", "lymph"])], solver=SOLVER, rules=Rules(max_turns=2))
    left = SOLVER.candidates([("fuzzy", score_guess("speed", "fuzzy"))])
    last = evaluation.records[0].turns[1].regret
    assert last == SOLVER.regret("lymph", left, turns_left=1)
    assert last != SOLVER.regret("lymph", left, turns_left=2)


def test_the_solver_wins_without_regret_and_in_the_guesses_it_promised() -> None:
    evaluation = evaluate(PLANNED, ANSWERS, WORDS, PROMPTER, solver_player(), solver=SOLVER)
    figures = evaluation.figures()
    assert (figures.win_rate, figures.mean_regret) == (1.0, 0.0)
    assert figures.mean_guesses_on_wins == pytest.approx(SOLVER.value(np.arange(len(ANSWERS)), turns_left=6))


def test_a_free_refusal_gives_nothing_away() -> None:
    rules = Rules(dictionary=Dictionary.APP, max_refusals=1)
    evaluation = play_script([("crane", ["zzzzz", "zzzzz", "crane"])], solver=SOLVER, rules=rules)
    assert [turn.regret for turn in evaluation.records[0].turns[:2]] == [0.0, WASTED_TURN_REGRET]
    assert evaluation.records[0].turns_used == 2


@pytest.mark.parametrize(("regret_games", "measured"), [(None, 12), (1, 1), (5, 5), (12, 12), (99, 12)])
def test_regret_is_measured_in_as_many_games_as_asked(regret_games: int | None, measured: int) -> None:
    sampler = solver_player()
    evaluation = evaluate(PLANNED, ANSWERS, WORDS, PROMPTER, sampler, solver=SOLVER, regret_games=regret_games)
    assert sum(record.turns[0].regret is not None for record in evaluation.records) == measured


# --- playing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 5, 12, 100])
def test_batches_change_nothing(batch_size: int) -> None:
    sampler = solver_player()
    whole = evaluate(PLANNED, ANSWERS, WORDS, PROMPTER, sampler)
    assert evaluate(PLANNED, ANSWERS, WORDS, PROMPTER, sampler, batch_size=batch_size) == whole
    assert [record.secret for record in whole.records] == list(ANSWERS)


def test_every_finished_game_is_reported_once() -> None:
    seen: list[GameRecord] = []
    sampler = random_player()
    evaluation = evaluate(PLANNED, ANSWERS, WORDS, PROMPTER, sampler, batch_size=5, on_finished=seen.append)
    assert sorted(seen, key=lambda record: record.secret) == list(evaluation.records)


def test_wrong_requests_are_named() -> None:
    sampler = random_player()
    other = WordList("other", ("crane",), ("crane",))
    with pytest.raises(EvaluationError, match="no secrets"):
        evaluate(PLANNED, [], WORDS, PROMPTER, sampler)
    with pytest.raises(EvaluationError, match="batch_size=0"):
        evaluate(PLANNED, ANSWERS, WORDS, PROMPTER, sampler, batch_size=0)
    with pytest.raises(EvaluationError, match="regret_games=0"):
        evaluate(PLANNED, ANSWERS, WORDS, PROMPTER, sampler, regret_games=0)
    with pytest.raises(EvaluationError, match=r"'small'.*'other'"):
        evaluate(planned(other, PROMPTER), ["crane"], other, PROMPTER, sampler, solver=SOLVER)


@pytest.mark.parametrize(
    ("change", "named"), [({"fingerprint": "0" * 64}, "words"), ({"rules": Rules(max_turns=5)}, "rules")]
)
def test_games_are_those_of_the_evaluation_they_are_played_for(change: dict[str, Any], named: str) -> None:
    with pytest.raises(EvaluationError, match=f"planned for other {named} than its games are played with"):
        evaluate(replace(PLANNED, **change), ANSWERS, WORDS, PROMPTER, solver_player())


# --- files and splits -------------------------------------------------------------------------------------------------


def test_an_evaluation_survives_its_file(tmp_path: Path) -> None:
    evaluation = play_script(GAMES, solver=SOLVER, name="sft", player="runs/a/sft", parts=("train", "held_out"))
    path = tmp_path / "eval" / "sft.json"
    evaluation.save(path)
    assert Evaluation.load(path) == evaluation
    assert [file.name for file in path.parent.iterdir()] == ["sft.json"]
    assert json.loads(path.read_text())["records"][0]["turns"][0]["marks"] == "GGGGG"


@pytest.mark.parametrize(
    ("content", "place"), [("", "the file"), ("{", "the file"), ('{"name": "sft"}', "player"), ("[]", "the file")]
)
def test_a_damaged_file_is_named(tmp_path: Path, content: str, place: str) -> None:
    path = tmp_path / "sft.json"
    path.write_text(content)
    with pytest.raises(
        EvaluationError, match=rf"sft\.json is no evaluation: {place}: .*; name a file that `wordle-rl eval --out`"
    ):
        Evaluation.load(path)


def test_only_a_run_s_own_damaged_evaluation_is_to_be_deleted(tmp_path: Path) -> None:
    paths = [
        tmp_path / name for name in ("a.txt", "eval/sft.json", "run/sft.json", "run/eval/a.json", "run/eval/sft.json")
    ]
    (tmp_path / "run" / "eval").mkdir(parents=True)
    (tmp_path / "eval").mkdir()
    for path in (*paths, tmp_path / "run" / "config.json", tmp_path / "run" / "manifest.json"):
        path.write_text("dear diary")
    *others, own = paths
    for path in others:
        with pytest.raises(
            EvaluationError, match=r"is no evaluation: .*; name a file that .* wrote, or one in the eval"
        ):
            Evaluation.load(path)
    with pytest.raises(EvaluationError, match=r"is no evaluation: .*; delete it, and `wordle-rl run` evaluates again$"):
        Evaluation.load(own)


def test_a_directory_is_told_from_an_evaluation_in_it(tmp_path: Path) -> None:
    said = f"{tmp_path} is a directory; name an evaluation in it, such as {tmp_path / 'eval'}"
    with pytest.raises(EvaluationError, match=f"{re.escape(said)}.grpo.json"):
        Evaluation.load(tmp_path)
    for name in ("dpo-constrained", "dpo", "dpo-held_out"):
        play_script(GAMES).save(tmp_path / "eval" / f"{name}.json")
    with pytest.raises(EvaluationError, match=f"{re.escape(said)}.dpo.json"):
        Evaluation.load(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match=r"no file .*sft\.json"):
        Evaluation.load(tmp_path / "sft.json")


def test_split_figures_are_of_their_own_secrets() -> None:
    split = split_secrets(WORDS, val_size=2, test_size=4)
    lost = set(split.test)
    games = [(secret, ["fuzzy"] * 6 if secret in lost else [secret]) for secret in ANSWERS]
    figures = figures_by_split(play_script(games), split)
    assert {part: (f.num_games, f.win_rate) for part, f in figures.items()} == {
        "all": (12, 8 / 12),
        "train": (6, 1.0),
        "held_out": (4, 0.0),
    }


def test_a_word_from_outside_the_answers_is_in_no_figure_of_them() -> None:
    split = split_secrets(WORDS, val_size=2, test_size=4)
    figures = figures_by_split(play_script([("fuzzy", ["lymph"] * 6), *((word, [word]) for word in ANSWERS)]), split)
    assert {part: (f.num_games, f.win_rate) for part, f in figures.items()} == {
        "all": (12, 1.0),
        "train": (6, 1.0),
        "held_out": (4, 1.0),
    }


def test_a_split_of_other_words_is_refused() -> None:
    other = WordList("other", ("crane", "crate", "trace"), ("crane", "crate", "trace"))
    with pytest.raises(EvaluationError, match="different word lists"):
        figures_by_split(play_script(GAMES), split_secrets(other))


def test_some_of_the_answers_are_not_all() -> None:
    split = split_secrets(WORDS, val_size=2, test_size=4)
    some = [(secret, [secret]) for secret in split.of_each_part(2)]
    assert set(figures_by_split(play_script(some), split)) == {"train", "held_out"}
