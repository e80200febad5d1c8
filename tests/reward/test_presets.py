import dataclasses
import math

import pytest
from reward_games import SOLVER, play

from wordle_rl.env import Transcript
from wordle_rl.game import Rules
from wordle_rl.reward import COMPONENTS, CURRICULA, PRESETS, RewardError, Rubric, format_compliance
from wordle_rl.solver import Solver
from wordle_rl.words import WordList

HILLS = WordList("hills", ("bills", "fills", "hills", "mills"), ("bills", "fills", "hills", "mills", "fhmqq"))
HILLS_SOLVER = Solver(HILLS)


def total(name: str, game: Transcript, solver: Solver = SOLVER) -> float:
    return dataclasses.replace(PRESETS[name], keep_order=False).score(game, solver).total


def test_shaped_presets_reproduce_the_published_weights_on_one_reply() -> None:
    game = play("hills", "mills", words=HILLS, given=("bills",), rules=Rules(max_turns=2))
    # Format 1. Four letters kept in place and one new. Of fills, hills, mills the guess singles out one.
    feedback = 4 * 0.2 + 0.05
    information = (math.log2(3) - 2 / 3) / math.log2(3)
    assert total("shaped", game, HILLS_SOLVER) == pytest.approx(1.0 + 0.5 * feedback + 0.3 * information)
    assert total("shaped_strategy", game, HILLS_SOLVER) == pytest.approx(0.3 + feedback + information)


def test_notebook_preset_adds_up_the_last_guess() -> None:
    assert total("notebook", play("crane", "crate", "trace", "crane")) == pytest.approx(1 + 1 + 0 + 1)
    assert total("notebook", play("crane", "crate", "trace", rules=Rules(max_turns=2))) == pytest.approx(0.6 + 0.2 + 1)
    assert total("notebook", play("crane", "crate", "crate", rules=Rules(max_turns=2))) == pytest.approx(0.8 + 0 + 0)
    assert total("notebook", play("crane", *["think"] * 6)) == pytest.approx(0.2 + 0 - 4)


def test_strict_xml_preset_adds_up_its_five_terms() -> None:
    won = play("crane", "crate", "crane")
    assert total("strict_xml", won) == pytest.approx(1.0 + 0.5 * 4 / 5 + 0.2 + 0.2 + 0.1)
    lost = play("crane", "crate", "crate", "qqqqq", "cat", rules=Rules(max_turns=4))
    format_, consistency, length = (1 + 1 + 0.5 + 0.1) / 4, 1 / 4, 3 / 4
    assert total("strict_xml", lost) == pytest.approx(0.2 * format_ + 0.2 * consistency + 0.1 * length)


def test_verifiers_preset_pays_a_win_by_its_guesses_and_a_loss_by_its_last_marks() -> None:
    assert total("verifiers", play("crane", "crate", "trace", "crane")) == pytest.approx(1 + 1 / 3 + 0.2)
    lost = play("crane", "qqqqq", "trace", rules=Rules(max_turns=2))  # r, a and e green, c yellow
    assert total("verifiers", lost) == pytest.approx(3 * 0.2 + 0.1 + 0.2 * (0.5 + 1) / 2)


def test_solver_preset_charges_expected_guesses_given_away() -> None:
    game = play("hills", "bills", "fhmqq", "hills", words=HILLS)
    # Best play needs 2 guesses; "bills" first needs (1 + 3 * 3) / 4 = 2.5, after which "fhmqq" is best play.
    assert total("solver", game, HILLS_SOLVER) == pytest.approx(1.0 + 0.2 * 3 / 5 - 0.5 / 6)


def test_sparse_preset_pays_nothing_but_the_win_and_its_speed() -> None:
    assert total("sparse", play("crane", "crate", "trace", "crane")) == pytest.approx(1 + 0.5 * 3 / 5)
    assert total("sparse", play("crane", *["crate"] * 6)) == 0.0


def test_a_game_without_a_verdict_on_the_policy_has_no_reward() -> None:
    with pytest.raises(RewardError):
        Rubric({"win": 1.0}).score(play("crane", "crate"), SOLVER)
    for given_words in ((), ("crate",)):
        with pytest.raises(RewardError):
            Rubric({"win": 1.0}).score(play("crane", given=given_words, budget=True), SOLVER)


def test_a_solver_of_another_word_length_is_refused() -> None:
    game = play("crane", "crane")
    three = Solver(WordList("three", ("cat", "dog"), ("cat", "dog")))
    for name in COMPONENTS:
        rubric = Rubric({name: 1.0})
        if name in ("information", "regret", "quick_regret"):
            with pytest.raises(RewardError, match="5 letters"):
                rubric.score(game, three)
        else:
            assert name in rubric.score(game, three).values


def test_weight_zero_is_kept_but_counts_nothing() -> None:
    game = play("crane", "crate", "crate", "crane")
    watched = Rubric({"win": 1.0, "repeat": 0.0}, keep_order=False).score(game, SOLVER)
    assert watched.values == pytest.approx({"win": 1.0, "repeat": 1 / 6})
    assert watched.total == 1.0


def test_format_compliance_is_the_share_of_listed_words() -> None:
    good = play("crane", "crate", "crane", given=("trace",))
    bad = play("crane", "", "qqqqq", "cat", "crate", rules=Rules(max_turns=4))
    hard = play("crane", "crate", "zzzzz", rules=Rules(max_turns=2, hard_mode=True))
    assert format_compliance([good]) == 1.0
    assert format_compliance([good, bad]) == pytest.approx(3 / 6)
    assert format_compliance([hard]) == 1.0
    assert format_compliance([]) == 0.0


def test_switch_schedule_follows_the_compliance_it_is_given_and_remembers_none() -> None:
    schedule = CURRICULA["shaped_curriculum"]
    early, late = PRESETS["shaped"], PRESETS["shaped_strategy"]
    sides = [schedule.rubric(1.0, compliance) for compliance in (None, 0.0, 0.89, 0.9, 1.0, 0.5)]
    assert sides == [early, early, early, late, late, early]
