"""Laws of the reader of replies: it agrees with a second one, written from the grammar alone, on whatever is said."""

import random
import runpy
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wordle_rl.prompt import Guess, Thinking, parse_reply

SECOND = runpy.run_path(str(Path(__file__).resolve().parents[2] / "benchmarks" / "reply_grammar.py"))
MODES = [(thinking, brackets) for thinking in Thinking for brackets in (False, True)]


def agreed(reply: str, thinking: Thinking, brackets: bool) -> bool:
    """Whether the two readers, which must agree, find a guess."""
    parsed = parse_reply(reply, thinking, brackets=brackets)
    found = (parsed.word, parsed.thinking) if isinstance(parsed, Guess) else None
    assert found == SECOND["read_reply"](reply, thinking.value, brackets=brackets), reply[:300]
    return found is not None


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.one_of(st.sampled_from(SECOND["FRAGMENTS"]), st.text(max_size=3)), max_size=10).map("".join),
    st.sampled_from(MODES),
)
def test_two_readers_agree_on_whatever_is_said(reply, mode) -> None:
    agreed(reply, *mode)


@pytest.mark.parametrize("kind", SECOND["KINDS"], ids=lambda kind: kind.__name__)
def test_two_readers_agree_on_every_kind_of_adversarial_reply(kind) -> None:
    rng = random.Random(f"replies of {kind.__name__}")
    count = 60 if kind.__name__ == "huge" else 1200
    guesses = [agreed(kind(rng), *MODES[number % len(MODES)]) for number in range(count)]
    assert any(guesses) or kind.__name__ not in ("sound", "damaged")
