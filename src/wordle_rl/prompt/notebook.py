"""The messages of TRL and OpenEnv's notebook `openenv_wordle_grpo`, for models that were trained with them.

Each turn has the notebook's system prompt and one user message, `make_user_prompt` of what the environment sent last.
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

from wordle_rl.game import Turn
from wordle_rl.prompt import textarena_texts as texts

if TYPE_CHECKING:
    from wordle_rl.prompt.prompter import Prompter

RULES = """
You are an expert Wordle solver with deep knowledge of English vocabulary, letter frequency patterns, and optimal guessing strategies.

## GAME RULES

1. The target is a {letters}-letter English word
2. You have {turns} attempts to guess the correct word
3. After each guess, you receive color-coded feedback:
   - GREEN: Letter is correct and in the correct position
   - YELLOW: Letter is in the word but in the wrong position
   - GRAY: Letter is not in the word at all
4. All guesses must be valid {letters}-letter English words
5. You cannot reuse a word you've already guessed

## RESPONSE FORMAT

Only respond with your next guess in square brackets, e.g., [crane].

## STRATEGIC APPROACH

Do not repeat the same guess twice.

### Opening Strategy
- Start with words rich in common vowels (A, E, I, O, U) and consonants (R, S, T, L, N)
- Optimal starters: CRANE, SLATE, STARE, AROSE, IRATE

### Mid-Game Strategy
- Use confirmed GREEN letters in their correct positions
- Place YELLOW letters in different positions than where they appeared
- Eliminate GRAY letters from consideration

## YOUR GOAL

Solve the Wordle in as few guesses as possible by strategically using feedback to eliminate impossible words and narrow down the solution space efficiently.
"""  # noqa: E501  # the notebook's own lines


@dataclass(frozen=True)
class NotebookStyle:
    """`StyleTexts` of the notebook."""

    player0: bool

    def brackets(self, prompter: Prompter) -> bool:  # noqa: ARG002
        """See `StyleTexts`."""
        return True

    def rules(self, prompter: Prompter) -> str:
        """See `StyleTexts`."""
        return RULES.format(letters=prompter.word_length, turns=prompter.rules.max_turns)

    def opening(self, prompter: Prompter) -> str:
        """See `StyleTexts`."""
        opening = texts.opening(prompter.word_length, prompter.rules.max_turns)
        if self.player0:
            opening = _as_player0(opening.strip().removeprefix(f"{texts.GAME_TAG} "))
        return _user_message(opening, [opening])

    def feedback(self, prompter: Prompter, turns: Sequence[Turn]) -> str:
        """See `StyleTexts`. A reply without a guess is not shown, since no turn keeps it."""
        if self.player0:
            guess = turns[-1].guess
            new = [*([f"[{guess}]"] if guess else []), _player0_answer(prompter, turns)]
            return _user_message("\n".join(new), new)
        history = texts.opening(prompter.word_length, prompter.rules.max_turns)
        for count, turn in enumerate(turns, start=1):
            message = f"[{turn.guess}]" if turn.guess else ""
            left = prompter.turns_left(turns[:count])
            known = [earlier.guess for earlier in turns[: count - 1] if earlier.marks is not None]
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
    scored = [(turn.guess, turn.marks) for turn in turns if turn.guess is not None and turn.marks is not None]
    board = "\n".join(f"{texts.board(guess, marks)}\n" for guess, marks in scored)
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
