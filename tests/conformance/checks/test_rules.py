"""Laws of the rules' checks: their own scorer agrees with the package's, and common faults are told from it."""

from hypothesis import assume, given
from hypothesis import strategies as st

from wordle_rl.conformance.checks.rules import expected_marks
from wordle_rl.conformance.players import faulty_marks
from wordle_rl.game import score_guess

letters = st.text(alphabet="abc", min_size=5, max_size=5)


@given(letters, letters)
def test_two_scorers_agree(secret: str, guess: str) -> None:
    assert expected_marks(secret, guess) == score_guess(secret, guess)


@given(st.permutations("abcdefgh"), st.permutations("abcdefgh"))
def test_words_without_repeats_tell_no_faulty_scorer(one: list[str], other: list[str]) -> None:
    secret, guess = "".join(one[:5]), "".join(other[:5])
    assert set(faulty_marks(secret, guess)) == {expected_marks(secret, guess)}


@given(st.permutations("abcdefgh"), letters)
def test_a_guess_without_repeats_tells_nothing_on_any_secret(guess: list[str], secret: str) -> None:
    word = "".join(guess[:5])
    assume(set(word) & set(secret))
    assert set(faulty_marks(secret, word)) == {expected_marks(secret, word)}


def test_each_faulty_scorer_is_told_by_some_guess() -> None:
    told = [
        {number for number, marks in enumerate(faulty_marks(secret, guess)) if marks != expected_marks(secret, guess)}
        for secret, guess in (("abide", "speed"), ("crane", "eerie"), ("those", "geese"))
    ]
    assert set.union(*told) == {0, 1, 2}
