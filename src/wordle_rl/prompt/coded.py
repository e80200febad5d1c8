"""The styles `compact` and `spelled`: a token for each letter and hardly anything else, each with its errors.

compact  cXrYaXnXeG; replies in tags, without a line break after the thinking
spelled  X Y X X G; replies `c r a n e`, for models whose tokens are pieces of words. No thinking
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import add
from typing import TYPE_CHECKING, ClassVar

from wordle_rl.game import Outcome, Turn
from wordle_rl.prompt.reply import THINK_TAGS, FailureReason, Guess, ParseFailure, TaggedForm, Thinking

if TYPE_CHECKING:
    from wordle_rl.prompt.prompter import Prompter


@dataclass(frozen=True)
class CodedStyle:
    """`StyleTexts` without sentences.

    Attributes:
        system: What stands in place of the rules.
        start: The first message, with placeholders for the number of letters and of turns.
        line: Formats a guess and its marks, marks on the last line.
        errors: What stands in place of marks.
    """

    system: str
    start: str
    line: Callable[[str, str], str]
    errors: Mapping[Outcome, str]

    def brackets(self, prompter: Prompter) -> bool:  # noqa: ARG002
        """See `StyleTexts`."""
        return False

    def rules(self, prompter: Prompter) -> str:  # noqa: ARG002
        """See `StyleTexts`."""
        return self.system

    def opening(self, prompter: Prompter) -> str:
        """See `StyleTexts`."""
        return self.start.format(letters=prompter.word_length, turns=prompter.rules.max_turns)

    def feedback(self, prompter: Prompter, turns: Sequence[Turn]) -> str:  # noqa: ARG002
        """See `StyleTexts`."""
        return self._told(turns[-1]).split("\n")[-1]  # not the guess on a line of its own, which the reply has named

    def state(self, prompter: Prompter, turns: Sequence[Turn]) -> str:
        """See `StyleTexts`."""
        return "\n".join([self.opening(prompter), *map(self._told, turns)])

    def _told(self, turn: Turn) -> str:
        if turn.marks is not None and turn.guess is not None:
            return self.line(turn.guess, turn.marks)
        return self.errors[turn.outcome]


COMPACT = CodedStyle(
    system="",
    start="{letters}x{turns}",
    line=lambda guess, marks: "".join(map(add, guess, marks)),
    errors={
        Outcome.MALFORMED: "!",
        Outcome.WRONG_LENGTH: "#",
        Outcome.UNLISTED: "?",
        Outcome.HARD_MODE: "%",
    },
)
COMPACT_FORM = TaggedForm(separator="")
SPELLED = CodedStyle(
    system="Wordle",  # without a system message, some templates add a longer one
    start="Start",
    line=lambda guess, marks: f"{' '.join(guess)}\n{' '.join(marks)}",
    errors={
        Outcome.MALFORMED: "format",
        Outcome.WRONG_LENGTH: "length",
        Outcome.UNLISTED: "unknown",
        Outcome.HARD_MODE: "hint",
    },
)


class SpelledForm:
    """`ReplyForm` of letters and spaces alone, which leave no sign that could end a thought."""

    guess_tags: ClassVar = ("", "")
    has_thinking: ClassVar = False

    def parse(self, reply: str, thinking: Thinking, word_length: int) -> Guess | ParseFailure:  # noqa: ARG002
        """Read the letters of one guess, separated by spaces, and nothing else.

        Examples:
            >>> form = SpelledForm()
            >>> form.parse("c r a n e", Thinking.OFF, 5)
            Guess(word='crane', thinking='')
            >>> form.parse("crane", Thinking.OFF, 5).reason.value
            'no_guess'
            >>> form.parse("c r a n e s", Thinking.OFF, 5).has_tags
            True
        """
        if any(tag in reply for tag in THINK_TAGS):
            return ParseFailure(FailureReason.THINKING_NOT_ALLOWED, has_tags=True)
        match = _SPELLED.fullmatch(reply)
        if match is None:
            return ParseFailure(FailureReason.NO_GUESS)
        word = match[1].replace(" ", "").lower()
        return Guess(word) if len(word) == word_length else ParseFailure(FailureReason.NO_GUESS, has_tags=True)

    def write(self, word: str, thought: str, thinking: Thinking) -> str:  # noqa: ARG002
        """See `ReplyForm`."""
        return " ".join(word)


_SPELLED = re.compile(r"\s*([A-Za-z](?: [A-Za-z])*)\s*")
