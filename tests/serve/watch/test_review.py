"""Laws of reviews: candidates and information agree with counting by hand, over any board."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordle_rl.game import Outcome, Turn, score_guess
from wordle_rl.serve.watch import review
from wordle_rl.serve.watch.review import Reviewer, parse_board


def turn(secret: str, guess: str) -> Turn:
    return Turn(guess, score_guess(secret, guess), Outcome.SCORED)


def bits(guess: str, candidates: list[str]) -> float:
    sizes = Counter(score_guess(secret, guess) for secret in candidates).values()
    return -sum(size / len(candidates) * math.log2(size / len(candidates)) for size in sizes)


def test_every_turn_agrees_with_counting_by_hand(sixty, solver) -> None:
    reviewer = Reviewer(solver)
    for secret in sixty.answers[::7]:
        turns = [turn(secret, guess) for guess in (sixty.guesses[3], sixty.guesses[50], secret)]
        turns.insert(1, Turn("zzzzz", None, Outcome.UNLISTED))
        candidates = list(sixty.answers)
        for played, found in zip(turns, reviewer(turns, 6), strict=True):
            assert found.candidates == len(candidates)
            assert found.best in sixty
            assert found.best_bits == pytest.approx(bits(found.best, candidates), abs=1e-9)
            if played.marks is None:
                assert found.bits is None
            else:
                assert found.bits == pytest.approx(bits(played.guess, candidates), abs=1e-9)
                candidates = [word for word in candidates if score_guess(word, played.guess) == played.marks]
            assert found.left == len(candidates)
            assert set(found.some) <= set(candidates)
        assert reviewer.count(turns) == len(candidates)


def test_a_review_from_a_later_turn_is_the_end_of_the_whole_one(sixty, solver) -> None:
    reviewer = Reviewer(solver)
    free = Turn("zzzzz", None, Outcome.UNLISTED, costs_turn=False)
    turns = [turn(sixty.answers[9], sixty.guesses[3]), free, turn(sixty.answers[9], sixty.guesses[50])]
    whole = reviewer(turns, 2)
    assert [reviewer(turns, 2, first) for first in range(4)] == [whole[first:] for first in range(4)]


def test_from_a_turn_on_large_boards_are_judged_without_a_search(sixty, solver, monkeypatch) -> None:
    turns = [turn(sixty.answers[9], guess) for guess in (sixty.guesses[3], sixty.guesses[50], sixty.answers[9])]
    whole, known = Reviewer(solver)(turns, 6), solver.candidates([(turns[0].guess, turns[0].marks)])
    monkeypatch.setattr(review, "MANY", len(known) - 1)
    quick = solver.words.guesses[int(solver.quick_regrets(known).argmin())]
    found = Reviewer(solver)(turns, 6, quick_from=1)
    assert [each.best for each in found] == [whole[0].best, quick, whole[2].best]
    monkeypatch.setattr(review, "MANY", len(known))
    assert Reviewer(solver)(turns, 6, quick_from=1) == whole


def test_a_board_that_nothing_fits_has_no_best_guess(sixty, solver) -> None:
    guess = sixty.answers[0]
    contradiction = [Turn(guess, "GGGGG", Outcome.SCORED), Turn(guess, "XXXXX", Outcome.SCORED)]
    first, second, third = Reviewer(solver)([*contradiction, Turn(guess, "XXXXX", Outcome.SCORED)], 6)
    assert (first.left, second.left) == (1, 0)
    assert (third.candidates, third.best, third.best_bits, third.bits) == (0, None, None, 0.0)


def test_a_board_is_read_as_it_is_written() -> None:
    assert parse_board("", 5) == []
    scored, unread, empty = parse_board("Salet.XGXGX,buror.,.", 5)
    assert scored == Turn("salet", "XGXGX", Outcome.SCORED)
    assert (unread.guess, unread.marks, unread.outcome) == ("buror", None, Outcome.MALFORMED)
    assert (empty.guess, empty.marks) == (None, None)


@given(st.text(max_size=60))
def test_any_text_is_a_board_or_refused(text: str) -> None:
    try:
        turns = parse_board(text, 5)
    except ValueError:
        return
    assert all(each.marks is None or len(each.marks) == 5 for each in turns)
