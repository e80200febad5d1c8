"""The `spelled` style: replies `c r a n e`, feedback `X Y X X G`, a word for each error. No thinking."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from wordle_rl.game import Outcome, Turn
from wordle_rl.prompt.reply import THINK_TAGS, FailureReason, Guess, ParseFailure, Thinking

if TYPE_CHECKING:
    from wordle_rl.prompt.prompter import Prompter

ERRORS = {
    Outcome.MALFORMED: "format",
    Outcome.WRONG_LENGTH: "length",
    Outcome.UNLISTED: "unknown",
    Outcome.HARD_MODE: "hint",
}


class SpelledStyle:
    """`StyleTexts` of one token per letter, for models whose tokens are pieces of words."""

    def brackets(self, prompter: Prompter) -> bool:  # noqa: ARG002
        """See `StyleTexts`."""
        return False

    def rules(self, prompter: Prompter) -> str:  # noqa: ARG002
        """See `StyleTexts`."""
        return "Wordle"  # without a system message, some templates add a longer one

    def opening(self, prompter: Prompter) -> str:  # noqa: ARG002
        """See `StyleTexts`."""
        return "Start"

    def feedback(self, prompter: Prompter, turns: Sequence[Turn]) -> str:  # noqa: ARG002
        """See `StyleTexts`."""
        return _told(turns[-1]).split("\n")[-1]  # without the guess, which the reply has just named

    def state(self, prompter: Prompter, turns: Sequence[Turn]) -> str:
        """See `StyleTexts`."""
        return "\n".join([self.opening(prompter), *map(_told, turns)])


def _told(turn: Turn) -> str:
    if turn.marks is not None and turn.guess is not None:
        return f"{' '.join(turn.guess)}\n{' '.join(turn.marks)}"
    return ERRORS[turn.outcome]


class SpelledForm:
    """`ReplyForm` of letters and spaces alone, which leave no sign that could end a thought."""

    guess_tags: ClassVar = ("", "")
    has_thinking: ClassVar = False

    def parse(self, reply: str, thinking: Thinking, word_length: int) -> Guess | ParseFailure:  # noqa: ARG002
        """See `ReplyForm`."""
        return parse_spelled(reply, word_length)

    def write(self, word: str, thought: str, thinking: Thinking) -> str:  # noqa: ARG002
        """See `ReplyForm`."""
        return " ".join(word)


def parse_spelled(reply: str, word_length: int) -> Guess | ParseFailure:
    """Parse a spelled reply: the letters of one guess, separated by spaces, and nothing else.

    Examples:
        >>> parse_spelled("c r a n e", 5)
        Guess(word='crane', thinking='')
        >>> parse_spelled("crane", 5).reason.value
        'no_guess'
        >>> parse_spelled("c r a n e s", 5).has_tags
        True
    """
    if any(tag in reply for tag in THINK_TAGS):
        return ParseFailure(FailureReason.THINKING_NOT_ALLOWED, has_tags=True)
    match = _SPELLED.fullmatch(reply)
    if match is None:
        return ParseFailure(FailureReason.NO_GUESS)
    word = match[1].replace(" ", "").lower()
    return Guess(word) if len(word) == word_length else ParseFailure(FailureReason.NO_GUESS, has_tags=True)


_SPELLED = re.compile(r"\s*([A-Za-z](?: [A-Za-z])*)\s*")
