"""Laws of reading: marks are read in every known form, and never those of another guess."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordle_rl.conformance.targets import read_marks
from wordle_rl.game import Outcome, Turn, score_guess
from wordle_rl.prompt import Prompter, Shape, Style
from wordle_rl.words import load_words

WORDS = load_words("default").guesses
word = st.sampled_from(WORDS[::7])

TEXTARENA = """
[GAME] You submitted [crane].
Feedback:
C R A N E
G Y X X X

You have 4 guesses left."""
TABLE = "| Letter  | C R A N E |\n|---------|------------\n| Status  | G Y X X X |"


@pytest.mark.parametrize(
    "text",
    [
        TEXTARENA,
        TABLE,
        "crane GYXXX",
        "Guess 2: CRANE -> G Y X X X",
        "crane: 🟩🟨⬛⬛⬛",
        "crane 🟩🟨⬜⬜⬜",
        "CRANE\nGY___",
        "cGrYaXnXeX",
        "scored\ncrane\nGYXXX",
        "crane: GY---",
    ],
)
def test_marks_are_read_in_every_known_form(text: str) -> None:
    assert read_marks(text, "crane") == "GYXXX"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "crane is not a word of the list",
        "slate GYXXX",
        "You attempted an invalid move: crane. 3 guesses left",
        "cranes GYXXX",
        "crane GYXX",
        "S L A T E\nG Y X X X",
        "My guess is crane.\nGreat, let me see.",
    ],
)
def test_what_marks_no_such_guess_is_not_read(text: str) -> None:
    assert read_marks(text, "crane") is None


def test_the_last_board_counts() -> None:
    assert read_marks("crane XXXXX\ncrane GGGGG", "crane") == "GGGGG"
    assert read_marks(f"{TEXTARENA}\n[GAME]\nC R A N E\nG G G G G", "crane") == "GGGGG"


@pytest.mark.parametrize("style", Style)
@pytest.mark.parametrize("shape", Shape)
@settings(max_examples=30)
@given(secret=word, guesses=st.lists(word, min_size=1, max_size=5, unique=True))
def test_every_style_of_this_package_is_read(style: Style, shape: Shape, secret: str, guesses: list[str]) -> None:
    prompter = Prompter(style=style, shape=shape)
    turns = [Turn(guess, score_guess(secret, guess), Outcome.SCORED) for guess in guesses]
    messages = prompter.state(turns) if shape is Shape.STATE else [prompter.feedback(turns)]
    assert read_marks(messages[-1]["content"], guesses[-1]) == turns[-1].marks


@pytest.mark.parametrize("style", Style)
@settings(max_examples=30)
@given(guess=word)
def test_a_refused_guess_has_no_marks_in_any_style(style: Style, guess: str) -> None:
    turns = [Turn("crane", "GYXXX", Outcome.SCORED), Turn(guess, None, Outcome.UNLISTED)]
    message = Prompter(style=style).feedback(turns)
    assert read_marks(message["content"], guess) is None
