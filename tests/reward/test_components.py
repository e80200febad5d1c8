import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reward_games import ANSWERS, GUESSES, SOLVER, WORDS, play, value

from wordle_rl.game import Dictionary, Outcome, Rules, Turn, score_guess
from wordle_rl.prompt import knowledge_of
from wordle_rl.reward import COMPONENTS, letter_scores
from wordle_rl.solver import Solver
from wordle_rl.words import WordList


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("<guess>crate</guess>", 1.0),
        ("<think>why not</think><guess>crate</guess>", 1.0),
        ("<guess>qqqqq</guess>", 0.5),
        ("<guess>cat</guess>", 0.1),
        ("<guess>crate</guess> done", 0.1),
        ("<think>never closed", 0.1),
        ("I guess crate", 0.0),
        ("", 0.0),
    ],
)
def test_format_is_graded(reply: str, expected: float) -> None:
    assert value("format", play("crane", reply, rules=Rules(max_turns=1))) == expected


def test_hard_mode_fault_has_good_form_but_breaks_the_rules() -> None:
    game = play("crane", "crate", "zzzzz", rules=Rules(max_turns=2, hard_mode=True))
    assert game.turns[1].turn.outcome is Outcome.HARD_MODE
    assert value("format", game) == 1.0
    assert COMPONENTS["rule_break"].compute(game, SOLVER) == (0.0, 1.0)
    assert value("valid_word", game) == 0.5


@pytest.mark.parametrize(
    ("clues", "guess", "expected"),
    [
        ([], "crane", [0.05] * 5),
        ([("crane", "GXXXX")], "could", [0.2, 0.05, 0.05, 0.05, 0.05]),
        ([("crane", "YXXXX")], "could", [-0.2, 0.05, 0.05, 0.05, 0.05]),
        ([("crane", "YXXXX")], "ocher", [0.05, 0.1, 0.05, -0.5, -0.5]),
        # Exactly one e and it stands at 5: any other e is absent, and one where an e was refused stands wrong.
        ([("eerie", "XXXXG")], "these", [0.05, 0.05, -0.5, 0.05, 0.2]),
        ([("eerie", "XXXXG")], "elope", [-0.2, 0.05, 0.05, 0.05, 0.2]),
        # One e proved at 5, nothing said of others: a second one is new.
        ([("crane", "XXXXG")], "these", [0.05, 0.05, 0.05, 0.05, 0.2]),
        # One yellow e that may still be twice in the word: the first is moved, the second is new.
        ([("crane", "XXXXY")], "geese", [0.05, 0.1, 0.05, 0.05, -0.2]),
        # Exactly one e, not at 3 nor 5: only one copy can be moved.
        ([("these", "XXYXX")], "eerie", [0.1, -0.5, 0.05, 0.05, -0.2]),
        # A letter of the word where another is proved to stand.
        ([("crane", "GYXXX")], "raced", [-0.2, -0.5, 0.05, -0.5, 0.05]),
    ],
)
def test_feedback_scores_every_letter(clues: list[tuple[str, str]], guess: str, expected: list[float]) -> None:
    known = knowledge_of([Turn(word, marks, Outcome.SCORED) for word, marks in clues], 5)
    assert letter_scores(guess, known) == pytest.approx(expected)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(ANSWERS), st.lists(st.sampled_from(GUESSES), max_size=4))
def test_no_letter_of_the_secret_is_ever_scored_wrong(secret: str, guesses: list[str]) -> None:
    turns = [Turn(guess, score_guess(secret, guess), Outcome.SCORED) for guess in guesses]
    assert min(letter_scores(secret, knowledge_of(turns, 5))) > 0


@pytest.mark.parametrize(
    ("secret", "guess", "second"),
    [("abcdefgh", "abcdefgz", 5 * (7 * 0.2 - 0.5) / 8), ("abc", "xyz", -2.5), ("abcdefghij", "zbcdefghij", 0.65)],
)
def test_feedback_keeps_one_range_for_every_word_length(secret: str, guess: str, second: float) -> None:
    words = WordList("odd", (secret,), (secret, guess))
    game = play(secret, guess, guess, words=words, rules=Rules(max_turns=2))
    assert COMPONENTS["feedback"].compute(game, SOLVER) == pytest.approx((0.25 / 2, second / 2))


def test_information_is_the_share_of_the_best_available_by_hand() -> None:
    words = WordList("four", ("bills", "fills", "hills", "mills"), ("bills", "fills", "hills", "mills", "fhmqq"))
    solver = Solver(words)
    game = play("hills", "bills", "fhmqq", "hills", words=words)
    # "fhmqq" tells all four apart: 2 bits. "bills" splits them 1 and 3: 2 - 3/4 log2(3) bits. After it "fhmqq" is best.
    by_hand = [(2 - 0.75 * math.log2(3)) / 2, 1.0, 1.0]
    assert COMPONENTS["information"].compute(game, solver) == pytest.approx([score / 3 for score in by_hand])


def test_the_winning_guess_has_full_information_with_one_candidate_left() -> None:
    game = play("crane", "crate", "grape", "crane")
    left = SOLVER.candidates([("crate", score_guess("crane", "crate")), ("grape", score_guess("crane", "grape"))])
    assert [WORDS.answers[i] for i in left] == ["crane"]
    assert COMPONENTS["information"].compute(game, SOLVER)[-1] == pytest.approx(1 / 3)
    missed = play("crane", "crate", "grape", "zzzzz", rules=Rules(max_turns=3))
    assert COMPONENTS["information"].compute(missed, SOLVER)[-1] == 0.0


def test_no_candidate_left_means_no_information_and_no_regret() -> None:
    game = play("fuzzy", "kudzu", "zzzzz", "lymph", rules=Rules(max_turns=3))
    assert len(SOLVER.candidates([("kudzu", score_guess("fuzzy", "kudzu"))])) == 0
    assert COMPONENTS["information"].compute(game, SOLVER)[1:] == (0.0, 0.0)
    assert COMPONENTS["regret"].compute(game, SOLVER)[1:] == (0.0, 0.0)
    assert value("information", play("fuzzy", "fuzzy")) == 1.0


def test_best_play_has_no_regret_and_wasted_turns_have_all_of_it() -> None:
    best = SOLVER.best_guess(SOLVER.candidates(()))
    secret = next(word for word in ANSWERS if word != best)
    assert COMPONENTS["regret"].compute(play(secret, best, budget=True), SOLVER)[0] == pytest.approx(5 / 6)
    assert COMPONENTS["regret"].compute(play(secret, "", best, budget=True), SOLVER)[0] == pytest.approx(1 / 6)


def test_given_turns_are_clues_that_earn_nothing() -> None:
    game = play("crane", "trace", "crane", given=("crate",))
    for component in COMPONENTS.values():
        assert len(component.compute(game, SOLVER)) == 2
    # "crate" proved c, r, a, e in place and t absent; a second c is not ruled out.
    known = knowledge_of([game.turns[0].turn], 5)
    assert letter_scores("trace", known) == pytest.approx([-0.5, 0.2, 0.2, 0.05, 0.2])
    assert value("speed", game) == pytest.approx(3 / 5)
    assert COMPONENTS["consistency"].compute(game, SOLVER) == (0.0, 0.5)


@pytest.mark.parametrize("falling", [[1.0, 0.0], [1.0, 0.5, 0.0], [1.0, 0.8, 0.6, 0.4, 0.2, 0.0]])
def test_speed_falls_evenly_from_the_first_turn_to_the_last(falling: list[float]) -> None:
    rules = Rules(max_turns=len(falling))
    wins = [play("crane", *["zzzzz"] * before, "crane", rules=rules) for before in range(len(falling))]
    assert [value("speed", win) for win in wins] == pytest.approx(falling)


def test_latest_components_pay_the_change_and_add_up_to_the_last_guess() -> None:
    game = play("crane", "crate", "zzzzz", "trace", rules=Rules(max_turns=3))
    assert COMPONENTS["greens"].compute(game, SOLVER) == pytest.approx((0.8, -0.8, 0.6))
    assert COMPONENTS["yellows"].compute(game, SOLVER) == pytest.approx((0.0, 0.0, 0.2))
    repeated = play("crane", "crate", "crate", "trace", "crate", rules=Rules(max_turns=4))
    # 1 - uses before / distinct: 1, 1 - 1/1, 1 - 0/2, 1 - 2/2.
    assert COMPONENTS["variety"].compute(repeated, SOLVER) == pytest.approx((1.0, -1.0, 1.0, -1.0))


def test_free_refusals_cost_as_other_turns_until_all_is_paid() -> None:
    rules = Rules(dictionary=Dictionary.APP)
    game = play("crane", "qqqqq", "crate", "crate", *["qqqqq"] * 5, rules=rules, budget=True)
    paid = COMPONENTS["repeat"].compute(game, SOLVER)
    assert paid == pytest.approx((1 / 6, 0.0, *[1 / 6] * 5, 0.0))
    assert math.fsum(paid) == pytest.approx(1.0)
