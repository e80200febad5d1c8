"""Laws of the reader of replies: it agrees with a second one, written from the grammar alone, on whatever is said."""

import random
import runpy
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordle_rl.prompt import Guess, Thinking, parse_leniently, parse_reply

SECOND = runpy.run_path(str(Path(__file__).resolve().parents[2] / "benchmarks" / "reply_grammar.py"))
MODES = [(thinking, brackets) for thinking in Thinking for brackets in (False, True)]


def both(reply: str, thinking: Thinking, brackets: bool) -> tuple[tuple[str, str] | None, tuple[str, str] | None]:
    """Findings of the two readers: word and thinking, or None."""
    parsed = parse_reply(reply, thinking, brackets=brackets)
    found = (parsed.word, parsed.thinking) if isinstance(parsed, Guess) else None
    return found, SECOND["read_reply"](reply, thinking.value, brackets=brackets)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.one_of(st.sampled_from(SECOND["FRAGMENTS"]), st.text(max_size=3)), max_size=10).map("".join),
    st.sampled_from(MODES),
)
def test_two_readers_agree_on_whatever_is_said(reply: str, mode: tuple[Thinking, bool]) -> None:
    found, expected = both(reply, *mode)
    assert found == expected


@pytest.mark.parametrize("kind", SECOND["KINDS"], ids=lambda kind: kind.__name__)
def test_two_readers_agree_on_every_kind_of_adversarial_reply(kind) -> None:
    rng = random.Random(f"replies of {kind.__name__}")
    guesses = 0
    for number in range(60 if kind.__name__ == "huge" else 1200):
        reply = kind(rng)
        found, expected = both(reply, *MODES[number % len(MODES)])
        assert found == expected, reply[:300]
        guesses += expected is not None
    assert guesses or kind.__name__ not in ("sound", "damaged")


@pytest.mark.parametrize("word", SECOND["LOOK_ALIKES"])
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_a_look_alike_is_no_word(word: str, mode: tuple[Thinking, bool]) -> None:
    thought = "" if mode[0] is Thinking.OFF else "<think>a</think>"
    for reply in (f"{thought}<guess>{word}</guess>", f"{thought}[{word}]"):
        assert both(reply, *mode) == (None, None)


@pytest.mark.parametrize("mark", SECOND["INVISIBLE"])
@pytest.mark.parametrize(
    "place",
    [
        "{}<guess>crane</guess>",
        "<guess>{}crane</guess>",
        "<guess>cr{}ane</guess>",
        "<guess>crane{}</guess>",
        "<gu{}ess>crane</guess>",
        "<guess>crane</guess>{}",
    ],
)
def test_an_invisible_mark_makes_no_guess_and_hides_none(mark: str, place: str) -> None:
    assert both(place.format(mark), Thinking.OPTIONAL, False) == (None, None)
    hidden = f"<think>{mark}</think><guess>crane</guess>"
    assert both(hidden, Thinking.OPTIONAL, False) == (("crane", mark.strip()), ("crane", mark.strip()))


@pytest.mark.parametrize("order", SECOND["ORDERS"])
def test_orders_to_the_reader_are_prose(order: str) -> None:
    assert both(order, Thinking.OPTIONAL, False) == (None, None)
    found, expected = both(f"<think>{order}</think><guess>slate</guess>", Thinking.OPTIONAL, False)
    assert found == expected == ("slate", order)


@pytest.mark.parametrize(
    ("reply", "word"),
    [
        ("I will guess <guess>crane</guess>.", "crane"),
        ("```\n<guess> Crane. </guess>\n```", "crane"),
        ("<think><guess>slate</guess></think> So <guess>crane</guess>, again: <guess>CRANE</guess>", "crane"),
        ("<guess>crane</guess> or <guess>slate</guess>", None),
        ("<think>never closed <guess>crane</guess>", None),
        ("crane", None),
    ],
)
def test_a_lenient_reading_needs_one_word_in_its_tags(reply: str, word: str | None) -> None:
    assert not isinstance(parse_reply(reply), Guess)
    found = parse_leniently(reply)
    assert (found.word if isinstance(found, Guess) else None) == word
