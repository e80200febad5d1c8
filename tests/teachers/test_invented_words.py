"""Laws of invented words: letters of the list's kind, no listed word, named once no answer fits and not before."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import islice

import pytest

from wordle_rl.config import TeacherSettings, TraceSettings
from wordle_rl.data.game_record import GameRecord
from wordle_rl.data.trace_filter import replay_fault
from wordle_rl.game import Outcome, Rules, violates_clues
from wordle_rl.solver import Solver
from wordle_rl.teachers.games import draw_secrets, solver_traces
from wordle_rl.teachers.made_up_secrets import invented_words
from wordle_rl.teachers.solver import SolverTeacher
from wordle_rl.words import WordList, load_words
from wordle_rl.words.split import split_secrets

WORDS = load_words("default")
SPLIT = split_secrets(WORDS, strict_fraction=0.02)
KNOWN = [answer for answer in WORDS.answers if answer not in SPLIT.strict]
SETTINGS = TraceSettings(
    num_games=3000,
    outside_rate=0.2,
    invented_rate=0.5,
    pseudo_secrets=True,
    narrate=True,
    teacher=TeacherSettings(opener="salet"),
)


@pytest.fixture(scope="module")
def played() -> list[GameRecord]:
    words = WORDS.reserving(SPLIT.strict).named
    teacher = SolverTeacher(Solver(words))
    return list(solver_traces(words, draw_secrets(words, SPLIT, SETTINGS, 0), teacher, SETTINGS, 0))


@pytest.fixture(scope="module")
def of_invented(played) -> list[GameRecord]:
    """The games that end with a word that is not listed."""
    return [trace for trace in played if trace.turns[-1].guess not in WORDS]


def test_invented_words_are_made_of_the_triples_of_listed_ones_and_are_not_listed() -> None:
    drawn = [*islice(invented_words(WORDS, random.Random(1)), 2000)]
    triples = {(place, word[place - 2 : place + 1]) for word in WORDS.guesses for place in range(2, 5)}
    for word in drawn:
        assert word not in WORDS.guess_index
        assert all((place, word[place - 2 : place + 1]) in triples for place in range(2, 5))
    assert len({*drawn}) > 1800


def test_reserved_words_are_never_invented() -> None:
    words = WordList("two", ("aaab", "baaa"), ("aaab", "baaa"))
    assert {*islice(invented_words(words, random.Random(0)), 200)} == {"aaaa", "baab"}
    reserved = WordList("two", words.answers, words.guesses, reserved=frozenset({"aaaa"}))
    assert {*islice(invented_words(reserved, random.Random(0)), 50)} == {"baab"}


def test_so_many_games_have_invented_words_and_name_them(played, of_invented) -> None:
    assert len(played) == SETTINGS.num_games
    assert 0.4 * len(played) < len(of_invented) <= 0.5 * len(played)  # some games run out of turns before
    assert all(trace.won and trace.turns[-1].taught for trace in of_invented)


def test_an_invented_word_is_named_only_where_no_answer_fits_and_what_it_follows_was_refused(of_invented) -> None:
    refused = Counter()
    for trace in of_invented:
        *before, last = trace.turns
        board = [turn for turn in trace.board(len(before)) if turn.marks]
        assert all(violates_clues(answer, board) for answer in KNOWN)
        assert not violates_clues(last.guess, board)
        assert replay_fault(trace, WORDS, Rules()) is None
        slips = [turn for turn in before if turn.outcome is Outcome.UNLISTED]
        assert not any(turn.taught for turn in slips)
        refused[len(slips)] += 1
    assert refused[0] > refused[1] > refused[2] > 0


def test_a_file_of_such_games_can_be_trained_on_and_a_forged_one_cannot(played, of_invented) -> None:
    assert all(replay_fault(trace, WORDS, Rules()) is None for trace in played)
    trace = of_invented[0]
    forged = replace(trace, turns=(*trace.turns, trace.turns[0]))
    assert replay_fault(forged, WORDS, Rules()) == "plays_on_after_win"
    assert replay_fault(replace(trace, teacher="somebody"), WORDS, Rules()) == "unlisted_secret"
    *before, last = trace.turns
    wrong = replace(trace, turns=(*before, replace(last, marks="X" * 5)))
    assert replay_fault(wrong, WORDS, Rules()) in {"unlisted_guess", "wrong_marks"}
