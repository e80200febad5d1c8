"""Laws of the search for secrets: every known form is found, and words that stand everywhere give nothing away."""

import base64
import codecs
from random import Random

import pytest

from wordle_rl.conformance.environment_checks import disguises, leaks_in
from wordle_rl.conformance.examiner import Game, Reply, Turn
from wordle_rl.conformance.targets import Step

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
    turns = tuple(Turn(Reply(word, word), Step(""), None, "") for word in said)
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
    assert leaks_in([sample("crane", text), sample("slate", "nothing")]) == []


def test_a_word_of_the_instructions_gives_nothing_away() -> None:
    rules = "Your guess is marked; place counts."
    games = [sample(secret, rules) for secret in ("guess", "place", "crane", "slate")]
    assert leaks_in(games) == []
    plain = [sample(secret, "Your word is marked.") for secret in ("place", "crane", "slate")]
    assert leaks_in([*plain, sample("guess", "Your guess is marked.")]) != []


def test_what_the_player_said_gives_nothing_away() -> None:
    others = [sample("slate", "pilot XXXXX")]
    assert leaks_in([sample("parts", "strap YYYYY", "strap"), *others]) == []
    assert leaks_in([sample("parts", "strap YYYYY"), *others]) != []


def test_a_single_game_has_no_control_and_is_searched_all_the_same() -> None:
    assert len(leaks_in([sample("crane", "crane")])) == 1
