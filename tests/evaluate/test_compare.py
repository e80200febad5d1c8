"""Laws of two players side by side: games meet by secret and order, and every figure is one of hand arithmetic."""

from dataclasses import replace

import pytest
from scripted_evaluations import ANSWERS, NOT_SENT, play_script

from wordle_rl.evaluate import EvaluationError, compare, compare_all
from wordle_rl.game import Dictionary, Rules

LOSE = ["fuzzy"] * 6


def test_comparison_matches_hand_arithmetic() -> None:
    a = play_script([("crane", ["crane"]), ("crate", ["crane", "crate"]), ("grape", LOSE), ("speed", LOSE)], name="a")
    b = play_script([("speed", LOSE), ("grape", ["grape"]), ("crate", LOSE), ("crane", ["fuzzy", "crane"])], name="b")
    comparison = compare(a, b)
    assert [(game.secret, game.guesses) for game in compare_all([a, b]).games] == [
        ("crane", (1, 2)),
        ("crate", (2, None)),
        ("grape", (None, 1)),
        ("speed", (None, None)),
    ]
    assert (comparison.both, comparison.only_a, comparison.only_b, comparison.neither) == (1, 1, 1, 1)
    assert (comparison.num_pairs, comparison.num_unpaired, comparison.num_errors) == (4, 0, 0)
    assert comparison.p_value == 1.0
    assert comparison.win_rate_difference.mean == 0
    assert comparison.guesses_difference.mean == pytest.approx((1 + 5 - 6 + 0) / 4)
    assert comparison.guesses_p_value == 1.0, "1 + 5 - 6 is nothing: no flipping of signs is less uneven"


def test_repeats_of_a_secret_meet_in_order_and_spare_games_are_counted() -> None:
    a = play_script([("crane", ["crane"]), ("crane", LOSE), ("crane", LOSE), ("speed", LOSE)], name="a")
    b = play_script([("crane", LOSE), ("trace", LOSE), ("crane", LOSE)], name="b")
    comparison = compare(a, b)
    assert [(game.occurrence, game.guesses) for game in compare_all([a, b]).games] == [
        (0, (1, None)),
        (1, (None, None)),
    ]
    assert comparison.num_unpaired == 3


def test_errors_leave_the_comparison_and_are_counted() -> None:
    a = play_script([("crane", ["crane"]), ("speed", [NOT_SENT]), ("grape", LOSE)], name="a")
    b = play_script([("crane", [NOT_SENT]), ("speed", LOSE), ("grape", LOSE)], name="b")
    comparison = compare(a, b)
    assert [game.secret for game in compare_all([a, b]).games] == ["grape"]
    assert (comparison.both, comparison.only_a, comparison.only_b, comparison.neither) == (0, 0, 0, 1)
    assert comparison.num_errors == 2


def test_rules_that_play_no_part_do_not_tell_games_apart() -> None:
    a = play_script([("crane", ["crane"])], name="a")
    b = play_script([("crane", ["crane"])], name="b", rules=Rules(max_refusals=1000))
    assert compare(a, b).both == 1
    app = [replace(each, rules=replace(each.rules, dictionary=Dictionary.APP)) for each in (a, b)]
    with pytest.raises(EvaluationError, match="different rules"):
        compare(*app)


def test_games_played_again_say_nothing_new_of_other_words() -> None:
    a = [(secret, LOSE if secret in ANSWERS[:4] else [secret]) for secret in ANSWERS]
    b = [(secret, LOSE if secret in ANSWERS[3:5] else [secret]) for secret in ANSWERS]
    once = compare(play_script(a), play_script(b))
    twice, often = (compare(play_script(a * times), play_script(b * times)) for times in (2, 5))
    assert often.win_rate_difference == pytest.approx(twice.win_rate_difference)
    assert often.win_rate_difference.mean == pytest.approx(once.win_rate_difference.mean)
    assert often.guesses_difference == pytest.approx(once.guesses_difference)
    assert often.guesses_p_value == pytest.approx(once.guesses_p_value)


def test_wins_are_tested_by_secret_where_secrets_repeat() -> None:
    a = [(secret, LOSE) for secret in ANSWERS[:3]]
    b = [(secret, [secret]) for secret in ANSWERS[:3]]
    once = compare(play_script(a), play_script(b))
    often = compare(play_script(a * 4), play_script(b * 4))
    assert (once.by_secret, once.wins_test) == (False, "McNemar's exact test")
    assert (often.by_secret, often.wins_test) == (True, "sign-flip test by secret")
    assert often.p_value == once.p_value == 0.25, "three secrets, whatever the number of games"
    assert (often.only_a, often.only_b) == (0, 12)
