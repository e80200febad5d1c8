"""Laws of budgets: how long replies and games may be is counted to the token, and what does not fit is told."""

import pytest

pytest.importorskip("torch")

from wordle_rl.chat.codec import longest_game, longest_reply
from wordle_rl.game import Dictionary
from wordle_rl.prompt import Prompter, Shape, Style, Thinking


def test_a_reply_is_measured_with_its_closing_token(sixty, codec) -> None:
    compact = Prompter(Style.COMPACT, thinking=Thinking.OFF)
    assert longest_reply(sixty, compact, codec) == 8  # two tags, five letters, one closing token
    assert longest_reply(sixty, Prompter(Style.COMPACT, thinking=Thinking.REQUIRED), codec) == 10


def test_the_longest_game_by_hand(sixty, codec) -> None:
    """Compact: "5x6" and the reply token open it; five times a reply, its closing and five marks with a reply token."""
    compact = Prompter(Style.COMPACT, thinking=Thinking.OFF)
    assert longest_game(sixty, compact, codec, 12) == 4 + 5 * (12 + 1 + 6) + 12
    state = Prompter(Style.COMPACT, Shape.STATE, Thinking.OFF)
    assert longest_game(sixty, state, codec, 12) == 3 + 5 * 6 + 1 + 12


def test_free_refusals_make_the_longest_game_longer(sixty, codec) -> None:
    strict = Prompter(Style.COMPACT, thinking=Thinking.OFF)
    rules = type(strict.rules)(dictionary=Dictionary.APP, max_refusals=2)
    app = Prompter(Style.COMPACT, thinking=Thinking.OFF, rules=rules)
    assert longest_game(sixty, app, codec, 12) == longest_game(sixty, strict, codec, 12) + 2 * 19
