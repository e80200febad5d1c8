"""Laws of secrets that are no words: invented ones look like words and are named once no answer fits, pseudo ones earn
the marks of an answer until it is named."""

import random
from collections import Counter
from dataclasses import replace
from itertools import islice
from string import ascii_lowercase

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordle_rl.config.teachers import TeacherSettings, TraceSettings
from wordle_rl.data.dataset import replay_fault
from wordle_rl.data.game_record import GameNotes, GameRecord, TurnRecord
from wordle_rl.game import Outcome, Rules, Turn, score_guess, violates_clues
from wordle_rl.solver import Solver
from wordle_rl.teachers.games import draw_secrets, narration, solver_traces
from wordle_rl.teachers.made_up_secrets import Spelling, invented_words, pseudo_secret
from wordle_rl.teachers.solver import SolverTeacher
from wordle_rl.words import WordList, load_words
from wordle_rl.words.split import split_secrets

WORDS = load_words("default")
SPLIT = split_secrets(WORDS, strict_fraction=0.02)
KNOWN = [answer for answer in WORDS.answers if answer not in SPLIT.strict]
SPELLING = Spelling(WORDS)
SETTINGS = TraceSettings(
    num_games=3000, outside_rate=0.0, pseudo_rate=0.2, invented_rate=0.5, narrate=True,
    teacher=TeacherSettings(opener="salet"),
)  # fmt: skip


def games_of(settings: TraceSettings) -> list[GameRecord]:
    words = WORDS.reserving(SPLIT.strict).named
    teacher = SolverTeacher(Solver(words))
    return list(solver_traces(draw_secrets(words, SPLIT, settings, 0), teacher, settings, 0))


@pytest.fixture(scope="module")
def played() -> list[GameRecord]:
    return games_of(SETTINGS)


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


def test_an_invented_word_is_named_only_where_no_answer_fits(of_invented) -> None:
    for trace in of_invented[::4]:
        *before, last = trace.turns
        board = [turn for turn in trace.board(len(before)) if turn.marks]
        assert all(violates_clues(answer, board) for answer in KNOWN)
        assert not violates_clues(last.guess, board)


def test_the_strings_refused_before_it_fit_the_board_and_are_not_taught(of_invented) -> None:
    refused = Counter()
    for trace in of_invented:
        tried = [place for place, turn in enumerate(trace.turns) if turn.outcome is Outcome.UNLISTED]
        for place in tried:
            turn, board = trace.turns[place], trace.board(place)
            assert not turn.taught
            assert turn.guess not in {each.guess for each in board}
            assert turn.guess not in SPLIT.strict
            assert not violates_clues(turn.guess, [each for each in board if each.marks])
        refused[len(tried)] += 1
    assert 0.4 < 1 - refused[0] / len(of_invented) < 0.6  # 0.6 of the games that have a turn to spare
    assert refused[1] > refused[2] > 0


def test_a_string_for_a_board_is_new_and_the_secret_is_none() -> None:
    words = WordList("two", ("aaab", "baaa"), ("aaab", "baaa"), reserved=frozenset({"baab"}))
    spelling, rng = Spelling(words), random.Random(0)
    drawn = {spelling.draw_fitting([], "zzzz", rng) for _ in range(200)}
    assert drawn == {"aaaa"}  # what is left beside two listed words and a strict one
    assert {spelling.draw_fitting([], "aaaa", rng) for _ in range(50)} == {None}
    assert {spelling.draw_fitting([Turn("aaaa", None, Outcome.UNLISTED)], "zzzz", rng) for _ in range(50)} == {None}


@settings(max_examples=100)
@given(secret=st.sampled_from(WORDS.guesses), data=st.data(), seed=st.integers(0, 9))
def test_a_string_for_a_board_keeps_to_its_marks(secret, data, seed) -> None:
    others = st.sampled_from(WORDS.guesses).filter(lambda word: word != secret)
    guesses = data.draw(st.lists(others, min_size=1, max_size=4))
    board = [Turn(guess, score_guess(secret, guess), Outcome.SCORED) for guess in guesses]
    if found := SPELLING.draw_fitting(board, secret, random.Random(seed)):
        assert found not in WORDS
        assert not violates_clues(found, board)


def test_a_file_of_such_games_can_be_trained_on_and_a_forged_one_cannot(played, of_invented) -> None:
    assert all(replay_fault(trace, WORDS, Rules()) is None for trace in played)
    trace = of_invented[0]
    forged = replace(trace, turns=(*trace.turns, trace.turns[0]))
    assert replay_fault(forged, WORDS, Rules()) == "plays_on_after_win"
    assert replay_fault(replace(trace, notes=GameNotes("somebody")), WORDS, Rules()) == "unlisted_secret"
    *before, last = trace.turns
    wrong = replace(trace, turns=(*before, replace(last, marks="X" * 5)))
    assert replay_fault(wrong, WORDS, Rules()) in {"unlisted_guess", "wrong_marks"}


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
    others = [
        letter * 3 for letter in ascii_lowercase if letter not in "bd"
    ]  # b and d are all that is left to stand in
    found = {pseudo_secret("bbb", others, words, random.Random(seed)) for seed in range(50)}
    assert len(found) == 6
    assert not found & {"bbb", "ddd"}


@pytest.fixture(scope="module")
def of_pseudo() -> list[GameRecord]:
    teacher = TeacherSettings(opener="salet")
    return games_of(TraceSettings(num_games=3000, outside_rate=0.0, pseudo_rate=0.5, slip_rate=0.1, teacher=teacher))


@pytest.fixture(scope="module")
def of_all_kinds() -> list[GameRecord]:
    kinds = {"outside_rate": 0.3, "pseudo_rate": 0.2, "invented_rate": 0.1}
    return games_of(TraceSettings(num_games=9000, **kinds, teacher=TeacherSettings(opener="salet")))


def is_outside(word: str) -> bool:
    return word in WORDS.guess_index and word not in WORDS.answer_index


def test_each_kind_of_secret_has_its_share_of_the_games(of_all_kinds) -> None:
    shares = Counter(
        "answer" if trace.secret in WORDS.answer_index
        else "outside" if is_outside(trace.secret)
        else "invented" if trace.turns[-1].guess not in WORDS
        else "pseudo"
        for trace in of_all_kinds
    )  # fmt: skip
    assert shares["answer"] == 0.4 * len(of_all_kinds)
    # A few pseudo secrets have no letters, and a few invented words no turn left to be named.
    assert shares["outside"] == pytest.approx(0.3 * len(of_all_kinds), rel=0.1)
    assert shares["pseudo"] == pytest.approx(0.2 * len(of_all_kinds), rel=0.1)
    assert shares["invented"] == pytest.approx(0.1 * len(of_all_kinds), rel=0.1)


def test_pseudo_secrets_show_every_answer_equally_often_whatever_else_is_played(of_all_kinds) -> None:
    # With six turns played the secret may be an invented word that there was no turn left to name.
    ended = [trace for trace in of_all_kinds if trace.secret not in WORDS and len(trace.turns) < 6]
    shown = Counter(trace.turns[-1].guess for trace in ended if trace.turns[-1].guess in WORDS)
    assert len(shown) > 0.6 * len(KNOWN)  # of 1,800 such games, for 2,679 answers
    assert max(shown.values()) == 1


def test_games_with_pseudo_secrets_keep_the_rules_and_end_on_the_answer(of_pseudo) -> None:
    assert all(replay_fault(trace, WORDS, Rules()) is None for trace in of_pseudo)
    ended = [trace for trace in of_pseudo if trace.secret not in WORDS]
    assert len(ended) > 0.45 * len(of_pseudo)
    for trace in ended:
        last = trace.turns[-1]
        assert (last.taught, last.outcome, trace.won) == (True, Outcome.SCORED, False)
        assert last.guess in WORDS.answer_index


def test_no_held_out_word_is_a_secret_and_no_strict_one_is_named(of_pseudo) -> None:
    assert not {trace.secret for trace in of_pseudo} & SPLIT.never_trained
    assert not {turn.guess for trace in of_pseudo for turn in trace.turns} & {*SPLIT.strict}


@pytest.mark.parametrize(("count", "rates"), [(3, (0.5, 0.0, 0.5)), (5, (0.3, 0.4, 0.3)), (99_999, (0.5, 0.0, 0.5))])
def test_there_are_as_many_secrets_as_games_however_the_shares_are_rounded(count: int, rates) -> None:
    outside, pseudo, invented = rates
    settings = TraceSettings(num_games=count, outside_rate=outside, pseudo_rate=pseudo, invented_rate=invented)
    assert len(draw_secrets(WORDS, split_secrets(WORDS), settings, 0)) == count


def test_a_pseudo_secret_is_no_string_that_the_game_has_refused(default_words) -> None:
    rng = random.Random
    first = pseudo_secret("crane", ["slate"], default_words, rng(0))
    other = pseudo_secret("crane", ["slate"], default_words, rng(0), refused=[first])
    assert other not in (None, first)
    assert score_guess(other, "slate") == score_guess(first, "slate")


@pytest.mark.parametrize(
    ("remaining", "classes", "told"),
    [(4, 4, "all"), (4, 3, "most"), (4, 2, "some"), (40, 21, "most"), (40, 20, "some")],
)
def test_narration_tells_how_many_words_a_guess_tells_apart(remaining: int, classes: int, told: str) -> None:
    said = narration([TurnRecord("slate", "XXGXG")], "crane", remaining, classes)
    assert said.endswith(f"crane is one of them and tells {told} of them apart.")
