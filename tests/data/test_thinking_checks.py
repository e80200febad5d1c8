"""Laws of claims: what thinking says is checked where that is exact, and left alone where it is not."""

import pytest

from wordle_rl.data.thinking_checks import FalseClaim, called_possible, false_claim
from wordle_rl.game import Outcome, Turn, score_guess

# The secret is grape; after crate the words grape, drape and graze fit of those here.
BOARD = [Turn("crate", score_guess("grape", "crate"), Outcome.SCORED)]


@pytest.mark.parametrize(
    "thinking",
    [
        "",
        "Hard to say.",
        "I'll try crane first? No. I'll go with **grape**!",
        "grape fits. Only drape fits too.",
        "crane does not fit, since the e is last.",
        "If crane fits, drape does too.",
        "I need a word which fits all the clues; the guess fits my plan. I'll try these.",
        "Many words are possible; I open with crane.",
        "My first guess is crate, and it gave me three greens.",
        "crane fits? No, the e was marked green.",
        "Candidates: grape, crane? No.",
        "crane matches the A and E but n is ruled out.",
        "crane fits, but the c is ruled out.",
        "crane matches all the greens, the rest it does not.",
    ],
)
def test_honest_or_uncheckable_thinking_passes(thinking: str, small_words) -> None:
    assert false_claim(thinking, "grape", BOARD, small_words) is None


@pytest.mark.parametrize(
    ("thinking", "claim"),
    [
        ("so <guess>grape</guess>", FalseClaim.TAGS),
        ("done</think>", FalseClaim.TAGS),
        ("grape<|im_end|>", FalseClaim.TAGS),
        ("grape<｜end▁of▁sentence｜>", FalseClaim.TAGS),
        ("My first guess is drape.", FalseClaim.OTHER_GUESS),
        ("I'll go with grape. No: I'll play drape.", FalseClaim.OTHER_GUESS),
        ('Final answer: "graze"', FalseClaim.OTHER_GUESS),
        ("crane fits all the clues.", FalseClaim.IMPOSSIBLE),
        ("crane matches all of the clues", FalseClaim.IMPOSSIBLE),
        ("crane still fits and is common", FalseClaim.IMPOSSIBLE),
        ("crane fits. But the c is rare.", FalseClaim.IMPOSSIBLE),
        ("Candidates left: grape, crane.", FalseClaim.IMPOSSIBLE),
        ("The possible words are grape and crane", FalseClaim.IMPOSSIBLE),
    ],
)
def test_false_claims_are_named(thinking: str, claim: FalseClaim, small_words) -> None:
    assert false_claim(thinking, "grape", BOARD, small_words) is claim


def test_words_of_the_language_are_taken_for_guesses_only_in_capitals(default_words) -> None:
    for thinking in ("Let's try again.", "Let me guess again!", "I'll try later. I'll play safer."):
        assert false_claim(thinking, "grape", BOARD, default_words) is None
    assert false_claim("Let's try AGAIN.", "grape", BOARD, default_words) is FalseClaim.OTHER_GUESS


def test_the_solver_teachers_narration_holds_no_false_claim(sixty, traces) -> None:
    checked = 0
    for trace in traces:
        for count, turn in enumerate(trace.turns):
            assert false_claim(turn.thinking, turn.guess, trace.board(count), sixty) is None, turn
            checked += sum(1 for _ in called_possible(turn.thinking, sixty))
    assert checked > 100
