"""The messages of TRL and OpenEnv's notebook `openenv_wordle_grpo`, for models that were trained with them.

Each turn has a system prompt (ours; give the notebook's own as `game.system_prompt`) and one user message,
`make_user_prompt` of what the environment sent last.
`player0` is the environment of the first notebook (TextArena 0.6): it names the player, shows the whole board in every
feedback, and sends new messages alone, also in place of the game's prompt. Otherwise the texts are those of TextArena
0.7.4, and the environment sends the whole history. Two lines are ours: the guesses left after an invalid move, which
costs a turn here, and the marks of a guess made twice under `player0`, which that environment scored like any other.

Source: the notebook in huggingface/trl (Apache 2.0); TextArena's `textarena/envs/Wordle/env.py` and `state.py` (MIT).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wordle_rl.game import Turn, scored_pairs
from wordle_rl.prompt import textarena_texts as texts
from wordle_rl.prompt.english import HARD_MODE_RULE
from wordle_rl.prompt.reply import Thinking

if TYPE_CHECKING:
    from wordle_rl.prompt.prompter import Prompter

RULES = """
Find the secret English word of {letters} letters in {turns} guesses, each an English word of {letters} letters that you
have not tried. The reply to a guess marks its letters: green in place, yellow elsewhere in the word, gray missing.
"""
_FORMS = {
    Thinking.OFF: "Reply with the guess alone, in square brackets.",
    Thinking.OPTIONAL: "Reply with the guess alone, in square brackets.",
    Thinking.REQUIRED: "Reason first, inside <think>…</think>, then reply with the guess in square brackets.",
}


@dataclass(frozen=True)
class NotebookStyle:
    """`StyleTexts` of the notebook. A reply without a guess is not shown, since no turn keeps it."""

    player0: bool

    def brackets(self, prompter: Prompter) -> bool:  # noqa: ARG002
        """See `StyleTexts`."""
        return True

    def rules(self, prompter: Prompter) -> str:
        """See `StyleTexts`."""
        rules = RULES.format(letters=prompter.word_length, turns=prompter.rules.max_turns)
        hard = f"{HARD_MODE_RULE}\n" if prompter.rules.hard_mode else ""
        return f"{rules}{hard}\n{_FORMS[prompter.thinking]}\n"

    def opening(self, prompter: Prompter) -> str:
        """See `StyleTexts`."""
        opening = texts.opening(prompter.word_length, prompter.rules.max_turns)
        if self.player0:
            opening = _as_player0(opening.strip().removeprefix(f"{texts.GAME_TAG} "))
        return _user_message(opening, [opening])

    def feedback(self, prompter: Prompter, turns: Sequence[Turn]) -> str:
        """See `StyleTexts`."""
        if self.player0:
            guess = turns[-1].guess
            new = [*([f"[{guess}]"] if guess else []), _player0_answer(prompter, turns)]
            return _user_message("\n".join(new), new)
        history = texts.opening(prompter.word_length, prompter.rules.max_turns)
        for count, turn in enumerate(turns, start=1):
            message = f"[{turn.guess}]" if turn.guess else ""
            left = prompter.turns_left(turns[:count])
            known = dict(scored_pairs(turns[: count - 1]))
            history += texts.played(message, turn, left, repeated=turn.guess in known, letters=prompter.word_length)
        return _user_message(texts.ENV_ID, [history])

    def state(self, prompter: Prompter, turns: Sequence[Turn]) -> str:
        """See `StyleTexts`."""
        return self.feedback(prompter, turns)


def _user_message(prompt: str, messages: Sequence[str]) -> str:
    history = "\n".join(f"[MESSAGE] {message.strip()}" for message in messages)
    return (
        f"Game prompt:\n{prompt.strip()}\n\nConversation so far:\n{history}\n\n"
        "Reply with your next guess enclosed in square brackets."
    )


def _player0_answer(prompter: Prompter, turns: Sequence[Turn]) -> str:
    last, left = turns[-1], prompter.turns_left(turns)
    if last.marks is None or last.guess is None:
        return _as_player0(texts.answered(last, left, repeated=False, letters=prompter.word_length))
    board = "\n".join(f"{texts.board(guess, marks)}\n" for guess, marks in scored_pairs(turns))
    return f"Player 0 submitted [{last.guess}].\nFeedback:\n{board}\nYou have {left} guesses left."


_PLAYER0 = {
    "You are Playing Wordle.": "You are Player 0 in Wordle.",
    "'[apple]'": "[apple]",
    "You attempted": "Player 0 attempted",
    "Reason: You tried": "Reason: Player 0 tried",
    "Reason: Your": "Reason: Player 0, your",
    "Reason: '": "Reason: Player 0, '",
}


def _as_player0(text: str) -> str:
    for ours, theirs in _PLAYER0.items():
        text = text.replace(ours, theirs)
    return text
