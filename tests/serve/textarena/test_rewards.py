"""Laws of the drop-in functions: strict where the original guesses, the original's reading where it is asked for."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textarena_games import new_game, recorded, replayed

from wordle_rl.serve.notebook import (
    NO_GUESS,
    extract_feedback_counts,
    extract_guess,
    extract_wordle_feedback,
)
from wordle_rl.serve.textarena import TextArenaGame


def observed(*contents: str) -> SimpleNamespace:
    return SimpleNamespace(messages=[SimpleNamespace(content=content) for content in contents])


def history(game: TextArenaGame) -> SimpleNamespace:
    return observed(game.history)


@pytest.mark.parametrize(
    ("completion", "strict", "lenient"),
    [
        ("[crane]", "[crane]", "[crane]"),
        ("<think>\n\n</think>\n\n[crane]", "[crane]", "[crane]"),
        ("a or o? [slate]</think>[crane]", "[crane]", "[slate]"),
        ("<think>[slate]?</think>[crane]", "[crane]", "[slate]"),
        ("<think>[slate]", NO_GUESS, "[slate]"),
        ("My guess is [crane].", NO_GUESS, "[crane]"),
        ("I would say crane", NO_GUESS, "[iwoul]"),
        ("[planes]", "[planes]", "[plane]"),
        ("[crane] [slate]", NO_GUESS, "[crane]"),
        ("", NO_GUESS, "[dunno]"),
    ],
)
def test_a_completion_has_one_guess_or_none(completion: str, strict: str, lenient: str) -> None:
    assert extract_guess(completion) == strict
    assert extract_guess(completion, lenient=True) == lenient


@given(st.text(alphabet="abz[]<>/thinkG \n", max_size=40))
def test_a_guess_is_bracketed_letters_and_is_read_back_as_itself(completion: str) -> None:
    guess = extract_guess(completion)
    assert guess == NO_GUESS or guess[1:-1].isalpha()
    assert extract_guess(guess) == guess


def test_what_stands_for_no_guess_is_a_word_in_no_reading() -> None:
    game = new_game("crane")
    game.step(NO_GUESS)
    assert game.env.turns[-1].guess is None
    assert "wrong format" in game.history


@pytest.mark.parametrize("name", recorded())
def test_lenient_feedback_is_what_the_original_reads(name: str) -> None:
    """The original's signals are counts of its own reading of its own observations, which were recorded with them."""
    game = recorded()[name]
    said = game.reset["added"]
    for step in game.steps:
        said += step["added"]
        greens, yellows = extract_feedback_counts(extract_wordle_feedback(observed(said), lenient=True))
        assert greens / 5 == pytest.approx(step["reward_signals"]["wordle.greens"])
        assert yellows / 5 == pytest.approx(step["reward_signals"]["wordle.yellows"])


@pytest.mark.parametrize("name", recorded())
def test_strict_feedback_is_that_of_the_last_turn_or_none(name: str) -> None:
    ours, _ = replayed(recorded()[name])
    turn = ours.env.turns[-1]
    repeated = turn.guess in {earlier.guess for earlier in ours.env.turns[:-1]}
    marks = "" if turn.marks is None or repeated else turn.marks
    counts = extract_feedback_counts(extract_wordle_feedback(history(ours)))
    assert counts == (marks.count("G"), marks.count("Y"))
