"""Laws of reading: marks are read in every known form, and never those of another guess."""

import base64
import codecs
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordle_rl.conformance.environment_checks import disguises, leaks_in
from wordle_rl.conformance.examiner import Game, Reply
from wordle_rl.conformance.examiner import Turn as Exchange
from wordle_rl.conformance.targets import Step, read_marks
from wordle_rl.game import Outcome, Turn, score_guess
from wordle_rl.prompt import Prompter, Shape, Style
from wordle_rl.words import load_words

WORDS = load_words("default").guesses
word = st.sampled_from(WORDS[::7])

TEXTARENA = "\n[GAME] You submitted [crane].\nFeedback:\nC R A N E\nG Y X X X\n\nYou have 4 guesses left."
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


@pytest.mark.parametrize("text", ["crane XXXXX\ncrane GGGGG", f"{TEXTARENA}\n[GAME]\nC R A N E\nG G G G G"])
def test_the_last_board_counts(text: str) -> None:
    assert read_marks(text, "crane") == "GGGGG"


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


# --- the search for secrets: every known form is found, and words that stand everywhere give nothing away ---


FORMS = {
    "as it is": ["crane", "CRANE", "_crane_", "the secret word was: **Crane**.", '"crane"'],
    "spelled out": ["C R A N E", "c-r-a-n-e", '["c", "r", "a", "n", "e"]', "c, r, a, n, e"],
    "backwards": ["enarc"],
    "in rot13": [codecs.encode("crane", "rot13")],
    "in base64": [base64.b64encode(b"crane").decode(), base64.b64encode(b"CRANE").decode()],
    "in hexadecimal": [b"crane".hex(), b"CRANE".hex()],
    "as numbers": ["[3, 18, 1, 14, 5]", "99,114,97,110,101"],
}


def sample(secret: str, text: str, *said: str) -> tuple[Game, str]:
    turns = tuple(Exchange(Reply(word, word), Step(""), None, "") for word in said)
    return Game(None, 0, "solver", Step(""), Random(0), turns, secret), text  # type: ignore[arg-type]  # by nobody


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_found_in_each_form(form: str) -> None:
    assert set(disguises("crane")) == set(FORMS)
    others = [sample("slate", "nothing"), sample("pilot", "nothing")]
    for text in FORMS[form]:
        (leak,) = leaks_in([sample("crane", f"before {text} after"), *others])
        assert leak.endswith(f"is sent {form}")


@pytest.mark.parametrize("text", ["cranes", "scrane", "c r a n", "crone", "33, 18, 1, 14, 5"])
def test_other_words_are_not_the_secret(text: str) -> None:
    assert not leaks_in([sample("crane", text), sample("slate", "nothing")])


def test_what_all_games_say_and_what_the_player_said_give_nothing_away() -> None:
    assert not leaks_in([sample(secret, "Your guess has its place.") for secret in ("guess", "place", "crane")])
    assert leaks_in([sample("place", "Your word"), sample("crane", "Your word"), sample("guess", "Your guess")])
    other = sample("slate", "pilot XXXXX")
    assert not leaks_in([sample("parts", "strap YYYYY", "strap"), other])
    assert leaks_in([sample("parts", "strap YYYYY"), other])
    assert leaks_in([sample("crane", "crane")]), "a single game has no control"
