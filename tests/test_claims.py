"""Laws of claims: what thinking says is checked where that is exact, and left alone where it is not."""

import pytest

from wordle_rl.claims import FalseClaim, called_possible, false_claim
from wordle_rl.game import Outcome, Turn, score_guess

# The secret is grape; after crate the words grape, drape and graze fit of those here.
BOARD = [Turn("crate", score_guess("grape", "crate"), Outcome.SCORED)]


@pytest.mark.parametrize(
    "thinking",
    [
        "",
        "Hard to say.",
        "So my next guess is GRAPE.",
        "I'll try crane first? No. I'll go with **grape**!",
        "Candidates: grape, drape and graze.",
        "grape fits. Only drape fits too.",
        "crane does not fit, since the e is last.",
        "I wonder if crane fits.",
        "I need a word which fits all the clues; the guess fits my plan. I'll try these.",
        "I'll guess there are few left.",
        "Possible words: I think grape or crane.",
        "Any of 60 words is possible; I open with crane.",
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
        ("My final guess is DRAPE.", FalseClaim.OTHER_GUESS),
        ("I'll go with grape. No: I'll play drape.", FalseClaim.OTHER_GUESS),
        ('Final answer: "graze"', FalseClaim.OTHER_GUESS),
        ("crane fits all the clues.", FalseClaim.IMPOSSIBLE),
        ("**CRANE** is still possible", FalseClaim.IMPOSSIBLE),
        ("crane is one of them", FalseClaim.IMPOSSIBLE),
        ("Candidates left: grape, crane.", FalseClaim.IMPOSSIBLE),
        ("The possible words are grape and crane", FalseClaim.IMPOSSIBLE),
    ],
)
def test_false_claims_are_named(thinking: str, claim: FalseClaim, small_words) -> None:
    assert false_claim(thinking, "grape", BOARD, small_words) is claim


def test_on_an_empty_board_every_word_fits(small_words) -> None:
    assert false_claim("crane fits. Candidates: lymph, crane.", "grape", [], small_words) is None


def test_only_listed_words_are_candidates(small_words) -> None:
    assert list(called_possible("zzzzz fits. CRANE fits. Candidates: grape, zzzzz.", small_words)) == ["crane"]


def test_the_solver_teachers_narration_holds_no_false_claim(sixty, traces) -> None:
    checked = 0
    for trace in traces:
        for count, turn in enumerate(trace.turns):
            assert false_claim(turn.thinking, turn.guess, trace.board(count), sixty) is None, turn
            checked += sum(1 for _ in called_possible(turn.thinking, sixty))
    assert checked > 100
