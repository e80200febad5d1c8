"""The notebook's messages: byte for byte what its helper functions make of what the environment sends."""

from collections.abc import Sequence

import pytest
from textarena_games import new_game

from wordle_rl.game import Outcome, Rules, Turn
from wordle_rl.prompt import Prompter, Shape, Style, Thinking


def make_user_prompt(prompt: str, messages: Sequence[str]) -> str:
    """The notebook's own, with messages of category MESSAGE."""
    history = "\n".join(f"[MESSAGE] {content.strip()}" for content in messages if content.strip())
    return (
        f"Game prompt:\n{prompt.strip()}\n\nConversation so far:\n{history}\n\n"
        "Reply with your next guess enclosed in square brackets."
    )


def user_message(style: Style, turns: Sequence[Turn]) -> str:
    system, user = Prompter(style, Shape.STATE).opening(turns)
    assert "5 letters in 6 guesses" in system["content"]
    return user["content"]


@pytest.mark.parametrize("guesses", [[], ["crane"], ["crane", "slate", "crane", "zzzzz", "stale"]])
def test_a_message_is_what_the_notebook_makes_of_our_server(guesses) -> None:
    game = new_game("shale")
    for guess in guesses:
        game.step(f"[{guess}]")
    assert user_message(Style.NOTEBOOK, game.env.turns) == make_user_prompt(game.prompt, [game.history])


OPENING = """You are Player 0 in Wordle.
A secret 5-letter word has been chosen. You have 6 attempts to guess it.
For each guess, wrap your word in square brackets (e.g., [apple]).
Feedback for each letter will be given as follows:
  - G (green): correct letter in the correct position
  - Y (yellow): letter exists in the word but in the wrong position
  - X (wrong): letter is not in the word
Enter your guess to begin."""
BOARD = """Player 0 submitted [spare].
Feedback:
C R A N E
X Y X X X

S P A R E
G X X G X

You have 4 guesses left."""


def test_the_first_notebook_named_the_player_and_showed_the_whole_board() -> None:
    assert user_message(Style.NOTEBOOK_PLAYER0, []) == make_user_prompt(OPENING, [OPENING])
    turns = [Turn("crane", "XYXXX", Outcome.SCORED), Turn("spare", "GXXGX", Outcome.SCORED)]
    assert user_message(Style.NOTEBOOK_PLAYER0, turns) == make_user_prompt(f"[spare]\n{BOARD}", ["[spare]", BOARD])


@pytest.mark.parametrize(
    ("turn", "reason"),
    [
        (Turn(None, None, Outcome.MALFORMED), "Player 0 tried submitting a word in the wrong format."),
        (Turn("cranes", None, Outcome.WRONG_LENGTH), "Player 0, your word must be exactly 5 letters."),
        (Turn("zzzzz", None, Outcome.UNLISTED), "Player 0, 'zzzzz' is not an English word."),
    ],
)
def test_the_first_notebook_refused_in_these_words(turn, reason) -> None:
    said = user_message(Style.NOTEBOOK_PLAYER0, [turn])
    assert f"Player 0 attempted an invalid move. Reason: {reason}" in said
    assert said.count("You have 5 guesses left.") == 2


@pytest.mark.parametrize("style", [Style.NOTEBOOK, Style.NOTEBOOK_PLAYER0, Style.VERIFIERS])
def test_the_rules_ask_for_thinking_and_hints_where_they_are_demanded(style: Style) -> None:
    plain, strict = (
        Prompter(style, thinking=thinking, rules=Rules(hard_mode=hard)).opening()[0]["content"]
        for thinking, hard in ((Thinking.OFF, False), (Thinking.REQUIRED, True))
    )
    assert [part in plain for part in ("eason first", "Every hint")] == [False, False]
    assert [part in strict for part in ("eason first", "Every hint")] == [True, True]
