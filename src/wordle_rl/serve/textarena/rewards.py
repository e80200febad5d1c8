"""Drop-in replacements of openenv's `textarena_env.rewards`: guess of a completion, marks of a turn.

They are strict. `lenient=True` reads like the original, for comparisons only: it finds guesses in thinking and prose,
and marks of an earlier turn.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from wordle_rl.prompt import Guess, parse_reply
from wordle_rl.prompt.reply import with_opened_thought
from wordle_rl.prompt.textarena_texts import GAME_TAG

NO_GUESS = "[]"
"""Message for a completion without a guess; the game refuses it. The original sends `[dunno]`, which is a word."""

_LENIENT_NO_GUESS = "[dunno]"
_LENIENT_GUESS = re.compile(r"\[[A-Za-z]{5}\]")
_LENIENT_LENGTH = 5
_FEEDBACK = "Feedback:"
_ANSWER = re.compile(r"(?:You|Player \d+) submitted \[\w+\]\.\s*Feedback:(.*)", re.DOTALL)
"""The game's answer to a scored guess, in the words of TextArena 0.7 or of 0.6."""


class _Message(Protocol):
    @property
    def content(self) -> str: ...


class _Observation(Protocol):
    @property
    def messages(self) -> Sequence[_Message]: ...


def extract_guess(text: str, *, lenient: bool = False) -> str:
    """Return the guess of a completion as a message to the game, `[crane]`.

    A strict completion is one word in brackets after optional thinking, and nothing else. Thinking is not searched, and
    prose is not a guess. The game judges length and spelling.

    Args:
        text: The completion; it can close a thought that the prompt opened.
        lenient: Take the first five letters in brackets anywhere, or else the first five letters of the text.

    Returns:
        The guess in lower case and brackets; `NO_GUESS` if there is none.

    Examples:
        >>> extract_guess("<think>[slate] or [crane]?</think>[Crane]")
        '[crane]'
        >>> extract_guess("I would say crane"), extract_guess("I would say crane", lenient=True)
        ('[]', '[iwoul]')
    """
    if lenient:
        return _lenient_guess(text)
    parsed = parse_reply(with_opened_thought(text), brackets=True)
    return f"[{parsed.word}]" if isinstance(parsed, Guess) else NO_GUESS


def extract_wordle_feedback(observation: _Observation, *, lenient: bool = False) -> str:
    """Return the letters and marks with which the game answered the last message.

    Args:
        observation: Anything with `messages`, newest last.
        lenient: Take the marks of an earlier turn if the last message got none, or if the game ended with it.

    Returns:
        Letters, marks and the guesses left, a line each; empty if the last message was refused.
    """
    if lenient:
        contents = [message.content.strip() for message in observation.messages if _FEEDBACK in message.content]
        return contents[-1].split(_FEEDBACK, 1)[-1].strip() if contents else ""
    last = observation.messages[-1].content.rsplit(f"{GAME_TAG} ", 1)[-1] if observation.messages else ""
    answer = _ANSWER.match(last.lstrip())
    return answer[1].strip() if answer else ""


def extract_feedback_counts(feedback: str) -> tuple[int, int]:
    """Count the green and the yellow marks of the last guess of a feedback.

    Examples:
        >>> extract_feedback_counts("C R A N E\\nX Y X X G\\nYou have 5 guesses left.")
        (1, 1)
        >>> extract_feedback_counts("")
        (0, 0)
    """
    lines = [line.replace(" ", "") for line in feedback.splitlines() if line.strip()]
    for line in reversed(lines[1:]):
        if not line.strip("GYX"):
            return line.count("G"), line.count("Y")
    return 0, 0


def _lenient_guess(text: str) -> str:
    if bracketed := _LENIENT_GUESS.search(text):
        return bracketed[0].lower()
    letters = re.sub("[^a-z]", "", text.lower())
    return f"[{letters[:_LENIENT_LENGTH]}]" if len(letters) >= _LENIENT_LENGTH else _LENIENT_NO_GUESS
