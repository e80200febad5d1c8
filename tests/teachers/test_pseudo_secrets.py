"""Laws of pseudo secrets: the marks of an answer until it is named, no answer themselves, each shown equally often."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordle_rl.config import TeacherSettings, TraceSettings
from wordle_rl.data.game_record import GameRecord
from wordle_rl.game import Game, Outcome, score_guess
from wordle_rl.solver import Solver
from wordle_rl.teachers.games import draw_secrets, solver_traces
from wordle_rl.teachers.made_up_secrets import pseudo_secret
from wordle_rl.teachers.solver import SolverTeacher
from wordle_rl.words import WordList, load_words
from wordle_rl.words.split import Split, split_secrets

WORDS = load_words("default")
PSEUDO = TraceSettings(num_games=6000, pseudo_secrets=True, slip_rate=0.1, teacher=TeacherSettings(opener="salet"))


@settings(max_examples=150)
@given(answer=st.sampled_from(WORDS.answers), data=st.data(), seed=st.integers(0, 9))
def test_the_letters_earn_the_marks_of_the_answer_and_are_no_answer(answer, data, seed) -> None:
    others = st.sampled_from(WORDS.guesses).filter(lambda word: word != answer)
    guesses = data.draw(st.lists(others, min_size=1, max_size=5))
    found = pseudo_secret(answer, guesses, WORDS, random.Random(seed))
    if found is not None:
        assert found not in WORDS.answer_index
        assert [score_guess(found, guess) for guess in guesses] == [score_guess(answer, guess) for guess in guesses]
        assert found == pseudo_secret(answer, guesses, WORDS, random.Random(seed))


def test_letters_that_the_marks_leave_no_choice_have_no_stand_in() -> None:
    assert pseudo_secret("bread", ["beard"], WORDS, random.Random(0)) is not None
    assert pseudo_secret("bread", ["salet", "beard", "bleak", "druid", "cream"], WORDS, random.Random(0)) is None


def test_reserved_words_never_stand_in() -> None:
    words = WordList("two", ("aaa", "bbb"), ("aaa", "bbb", "ccc"), reserved=frozenset({"ddd"}))
    found = {pseudo_secret("bbb", ["aaa"], words, random.Random(seed)) for seed in range(50)}
    assert not found & {"aaa", "bbb", "ddd"}


@pytest.fixture(scope="module")
def split() -> Split:
    return split_secrets(WORDS, strict_fraction=0.02)


@pytest.fixture(scope="module")
def played(split) -> list[GameRecord]:
    words = WORDS.reserving(split.strict).named
    teacher = SolverTeacher(Solver(words))
    return list(solver_traces(words, draw_secrets(words, split, PSEUDO, 0), teacher, PSEUDO, 0))


def test_games_with_pseudo_secrets_keep_the_rules_and_end_on_the_answer(played, split) -> None:
    ended = 0
    for trace in played:
        game = Game(trace.secret, WORDS)
        for turn in trace.turns:
            assert game.play(turn.guess).marks == (turn.marks or None)
        if trace.secret not in WORDS:
            last = trace.turns[-1]
            assert (last.taught, last.outcome, trace.won) == (True, Outcome.SCORED, False)
            assert last.guess in WORDS.answer_index
            ended += 1
    assert len(played) == PSEUDO.num_games
    assert ended > 0.45 * len(played)


def test_no_held_out_word_is_a_secret_and_no_strict_one_is_named(played, split) -> None:
    assert not {trace.secret for trace in played} & split.never_trained
    assert not {turn.guess for trace in played for turn in trace.turns} & {*split.strict}
