"""The `compact` style: each letter followed by its mark and nothing else, a sign for each error."""

from __future__ import annotations

from collections.abc import Sequence
from operator import add
from typing import TYPE_CHECKING

from wordle_rl.game import Outcome, Turn
from wordle_rl.prompt.reply import TaggedForm

if TYPE_CHECKING:
    from wordle_rl.prompt.prompter import Prompter

ERRORS = {
    Outcome.MALFORMED: "!",
    Outcome.WRONG_LENGTH: "#",
    Outcome.UNLISTED: "?",
    Outcome.HARD_MODE: "%",
}
COMPACT_FORM = TaggedForm(separator="")


class CompactStyle:
    """`StyleTexts` in as few tokens as the embedded model needs."""

    def brackets(self, prompter: Prompter) -> bool:  # noqa: ARG002
        """See `StyleTexts`."""
        return False

    def rules(self, prompter: Prompter) -> str:  # noqa: ARG002
        """See `StyleTexts`."""
        return ""

    def opening(self, prompter: Prompter) -> str:
        """See `StyleTexts`."""
        return f"{prompter.word_length}x{prompter.rules.max_turns}"

    def feedback(self, prompter: Prompter, turns: Sequence[Turn]) -> str:  # noqa: ARG002
        """See `StyleTexts`."""
        return _told(turns[-1])

    def state(self, prompter: Prompter, turns: Sequence[Turn]) -> str:
        """See `StyleTexts`."""
        return "\n".join([self.opening(prompter), *map(_told, turns)])


def _told(turn: Turn) -> str:
    if turn.marks is not None and turn.guess is not None:
        return "".join(map(add, turn.guess, turn.marks))
    return ERRORS[turn.outcome]
