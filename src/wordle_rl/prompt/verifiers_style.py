"""The messages of verifiers' Wordle (prime-rl's, too): TextArena's game, replies `<guess>[crane]</guess>`.

The first user message is TextArena's prompt. An answer is what TextArena says after "Feedback:", or its whole refusal
of an invalid move. The system prompt is ours; give theirs as `game.system_prompt`. So is the example after a reply
without a guess: TextArena asks for brackets, but here they stand in tags.

Source: the environment `wordle` of verifiers and prime-rl (Apache 2.0), which parses a reply by its guess tag and hands
the content to TextArena; the texts are those of `textarena_texts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wordle_rl.game import Outcome, Turn, scored_pairs
from wordle_rl.prompt import textarena_texts as texts
from wordle_rl.prompt.english import HARD_MODE_RULE
from wordle_rl.prompt.reply import Thinking

if TYPE_CHECKING:
    from wordle_rl.prompt.prompter import Prompter

_FORMS = {
    Thinking.OFF: "Play the game by its rules. Reply with nothing but your guess",
    Thinking.OPTIONAL: "Play the game by its rules. You may reason first inside <think>…</think>; end with your guess",
    Thinking.REQUIRED: "Play the game by its rules. Reason first, then guess",
}


class VerifiersStyle:
    """`StyleTexts` of verifiers' Wordle."""

    def brackets(self, prompter: Prompter) -> bool:  # noqa: ARG002
        """See `StyleTexts`."""
        return True

    def rules(self, prompter: Prompter) -> str:
        """See `StyleTexts`."""
        form = f"{_FORMS[prompter.thinking]}, like this: {prompter.example}"
        return f"{form}\n{HARD_MODE_RULE}" if prompter.rules.hard_mode else form

    def opening(self, prompter: Prompter) -> str:
        """See `StyleTexts`."""
        prompt = texts.opening(prompter.word_length, prompter.rules.max_turns)
        return prompt.strip().removeprefix(texts.GAME_TAG).strip()

    def feedback(self, prompter: Prompter, turns: Sequence[Turn]) -> str:
        """See `StyleTexts`."""
        *before, last = turns
        known = dict(scored_pairs(before))
        answer = texts.answered(
            last, prompter.turns_left(turns), repeated=last.guess in known, letters=prompter.word_length
        )
        if last.outcome is Outcome.MALFORMED:
            refusal, left = answer.split("\n")
            return f"{refusal}\nReply with {prompter.example}.\n{left}"
        return answer.rpartition("Feedback:")[2].strip()

    def state(self, prompter: Prompter, turns: Sequence[Turn]) -> str:
        """See `StyleTexts`."""
        answers = [self.feedback(prompter, turns[: count + 1]) for count in range(len(turns))]
        return "\n".join([self.opening(prompter), "", *answers])
