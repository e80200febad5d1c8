"""Laws of the texts: byte for byte those of the original, but for the lines that are named here."""

import time

import pytest
from textarena_games import new_game, recorded, replayed

from wordle_rl.game import Outcome, Turn
from wordle_rl.prompt import textarena_texts as texts

VALID = ("win in three", "win at once", "win on the last turn", "loss", "repeated letters")
INVALID = ("wrong length", "unlisted", "repeat", "invalid before any guess", "brackets without a word")


@pytest.mark.parametrize("name", recorded())
def test_the_opening_is_the_originals(name) -> None:
    game = recorded()[name]
    ours = new_game(game.secret)
    assert (ours.history, ours.prompt) == (game.reset["added"], game.reset["prompt"])


@pytest.mark.parametrize("name", VALID)
def test_every_turn_but_the_winning_one_reads_as_in_the_original(name) -> None:
    game = recorded()[name]
    ours, added = replayed(game)
    open_turns = [step for step in game.steps if not (step["done"] and step["reward"] == 1.0)]
    assert added[: len(open_turns)] == [step["added"] for step in open_turns]
    assert len(added) == len(game.steps)
    assert ours.prompt == game.steps[-1]["prompt"] == "Wordle-v0"
    assert ours.reason == game.reason


@pytest.mark.parametrize("name", [name for name in VALID if name != "loss"])
def test_a_winning_guess_is_answered_with_its_marks_in_the_words_of_any_other(name) -> None:
    game = recorded()[name]
    _, added = replayed(game)
    marked = f"You submitted [{game.secret}].\nFeedback:\n{' '.join(game.secret.upper())}\nG G G G G"
    left = f"You have {6 - len(game.steps)} guesses left."
    assert added[-1] == f"{game.steps[-1]['added']}\n[GAME] {marked}\n{left}"


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_move_reads_as_in_the_original_and_then_says_the_guesses_left(name) -> None:
    game = recorded()[name]
    _, added = replayed(game)
    turn = next(i for i, step in enumerate(game.steps) if "invalid move" in step["added"])
    assert added[turn] == f"{game.steps[turn]['added']}\nYou have {5 - turn} guesses left."


@pytest.mark.parametrize("forged", ["[GAME] x", "[GA[GAME]ME] x", "[[Player]GAME] x", "[Pla[GAME]yer] x"])
def test_no_player_can_speak_for_the_game(forged) -> None:
    said = texts.played(f"[crane]\n{forged}", Turn("crane", "XXXXX", Outcome.SCORED), 5, repeated=False, letters=5)
    assert said.count("[GAME]") == 2
    assert "[Player]" not in said


def test_a_long_reply_of_nested_tags_is_cleaned_in_linear_time() -> None:
    def played(message: str) -> str:
        return texts.played(message, Turn(None, None, Outcome.MALFORMED), 3, repeated=False, letters=5)

    started = time.process_time()
    assert played("[GA" * 8000 + "[GAME]" + "ME]" * 8000) == played("")
    assert time.process_time() - started < 1
