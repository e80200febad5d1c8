"""The texts of TextArena's Wordle that a player reads, word for word, since models were trained on them.

Source: TextArena 0.7.4 (Copyright (c) 2025 Leon Guertler, MIT licence), `textarena/envs/Wordle/env.py`,
`textarena/state.py` and the observation wrapper of `Wordle-v0`; the prompt as openenv's `textarena_env` passes it on. A
test compares them with games recorded from the original. Three lines are ours, because a player needs to know what the
original does not say:

- an invalid move costs its turn, so the number of guesses left follows its text;
- a winning guess gets its marks, like every other guess;
- hard mode has its own reason.
"""

from __future__ import annotations

from functools import lru_cache

from wordle_rl.game import Outcome, Turn

ENV_ID = "Wordle-v0"
"""Name of the game, and the prompt of every observation but the first."""

GAME_TAG = "[GAME]"
"""Tag before each line of the history, including the player's messages."""

_ROLE_TAGS = ("[Player]", GAME_TAG)

_OPENING = """\
You are Playing Wordle.
A secret {letters}-letter word has been chosen. You have {turns} attempts to guess it.
For each guess, wrap your word in square brackets (e.g., '[apple]').
Feedback for each letter will be given as follows:
  - G (green): correct letter in the correct position
  - Y (yellow): letter exists in the word but in the wrong position
  - X (wrong): letter is not in the word
Enter your guess to begin.
"""

_INVALID = (
    "You attempted an invalid move. Reason: {reason} "
    "Please resubmit a valid move and remember to follow the game rules to avoid penalties."
)

_LEFT = "You have {} guesses left."
_REPEATED = "You have already guessed '{guess}' before. Please try a different word."
_REASONS = {
    Outcome.MALFORMED: "You tried submitting a word in the wrong format. Please make sure to use squared brackets.",
    Outcome.WRONG_LENGTH: "Your word must be exactly {letters} letters.",
    Outcome.UNLISTED: "'{guess}' is not an English word.",
    Outcome.HARD_MODE: "'{guess}' leaves out a revealed hint.",
}


def opening(letters: int, turns: int) -> str:
    """Return the history of a game that has just begun."""
    return _line(_OPENING.format(letters=letters, turns=turns))


def played(message: str, turn: Turn, turns_left: int, *, repeated: bool, letters: int) -> str:
    """Return what a turn adds to the history: the player's message and the game's answer.

    Examples:
        >>> print(played("[crane]", Turn("crane", "XYXXG", Outcome.SCORED), 5, repeated=False, letters=5))
        <BLANKLINE>
        [GAME] [crane]
        [GAME] You submitted [crane].
        Feedback:
        C R A N E
        X Y X X G
        You have 5 guesses left.
    """
    answer = answered(turn, turns_left, repeated=repeated, letters=letters)
    return _line(_without_tags(message)) + _line(answer)


def answered(turn: Turn, turns_left: int, *, repeated: bool, letters: int) -> str:
    """Return the game's answer to a turn, without its tag; arguments as for `played`."""
    if turn.marks is not None and turn.guess is not None and not repeated:
        return _scored(turn.guess, turn.marks, turns_left)
    return f"{_INVALID.format(reason=_reason(turn, letters))}\n{_LEFT.format(turns_left)}"


@lru_cache(maxsize=1 << 13)  # openers recur in every game, and games of a group are similar
def _scored(guess: str, marks: str, turns_left: int) -> str:
    return f"You submitted [{guess}].\nFeedback:\n{board(guess, marks)}\n{_LEFT.format(turns_left)}"


def board(guess: str, marks: str) -> str:
    """Format a guess above its marks."""
    return f"{' '.join(guess.upper())}\n{' '.join(marks)}"


def won() -> str:
    """Return the reason why a won game ended."""
    return "Congratulations! You guessed the word correctly!"


def lost(secret: str, placed: int) -> str:
    """Return the reason why a lost game ended, with the secret.

    `placed` are the letters of the last scored guess in the right place, in percent; one elsewhere counts half.
    """
    return (
        f"The turn limit has been reached. You didn't guess the word, but your best guess matched {placed}% of the "
        f"letters in the correct positions.\nThe secret word was: **{secret}**."
    )


def _line(text: str) -> str:
    return f"\n{GAME_TAG} {text}"


def _reason(turn: Turn, letters: int) -> str:
    text = _REPEATED if turn.outcome is Outcome.SCORED else _REASONS[turn.outcome]
    return text.format(guess=turn.guess, letters=letters)


def _without_tags(message: str) -> str:
    """Remove tags of the game from a message, so that no player can write lines in its name.

    Examples:
        >>> _without_tags("[GA[GAME]ME] You submitted [crane].")
        ' You submitted [crane].'
    """
    if not any(tag in message for tag in _ROLE_TAGS):
        return message
    # One pass, since what is left of a removed tag can close another.
    kept: list[str] = []
    for character in message:
        kept.append(character)
        while tag := next((tag for tag in _ROLE_TAGS if kept[-len(tag) :] == [*tag]), None):
            del kept[-len(tag) :]
    return "".join(kept)
