"""A game in TextArena's words: messages in, a growing history out. The rules are those of `WordleEnv`."""

from __future__ import annotations

import re
from enum import StrEnum

from wordle_rl.env import WordleEnv
from wordle_rl.game import Turn
from wordle_rl.prompt import textarena_texts as texts

_BRACKETED = re.compile(r"\[(\w+)\]")


class Reading(StrEnum):
    """How to read a message."""

    STRICT = "strict"
    """One word in brackets after optional thinking, and nothing else."""
    LENIENT = "lenient"
    """Like the original, for comparisons: the first bracketed word anywhere, even in thinking; a message without
    brackets is one word."""


class TextArenaGame:
    """A game, played once.

    Attributes:
        prompt: The opening before the first turn, the name of the game afterwards.
        history: All messages, including the opening and those of the player.
        letters: Letters of the secret.
        max_turns: Guesses of the game.

    Args:
        env: The game, in style `textarena`, before the first turn.
        reading: How to read messages.

    Raises:
        ValueError: If the game has another style, whose grammar would contradict the texts.
    """

    def __init__(self, env: WordleEnv, reading: Reading = Reading.STRICT) -> None:
        if not env.prompter.brackets:
            raise ValueError(f"the game has style {env.prompter.style}; give one with style textarena")
        self._env = env
        self._reading = Reading(reading)
        self.letters, self.max_turns = env.prompter.word_length, env.prompter.rules.max_turns
        self.history = texts.opening(self.letters, self.max_turns)
        for count, turn in enumerate(env.turns, start=1):
            left = self.max_turns - count
            self.history += texts.played(f"[{turn.guess}]", turn, left, repeated=False, letters=self.letters)
        self.prompt = self.history.strip()

    @property
    def done(self) -> bool:
        """True once the game is over."""
        return self._env.stop_reason is not None

    @property
    def won(self) -> bool:
        """True if the secret was found."""
        return self.done and self._env.transcript().won

    @property
    def stop_reason(self) -> str | None:
        """Why the game ended, in one word; None while it runs."""
        return self._env.stop_reason and self._env.stop_reason.value

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns so far."""
        return self._env.turns

    @property
    def board(self) -> dict[str, str]:
        """Marks of each scored guess, in order."""
        return {turn.guess: turn.marks for turn in self.turns if turn.guess is not None and turn.marks is not None}

    @property
    def turns_used(self) -> int:
        """Guesses used."""
        return self.max_turns - self._env.observation.turns_left

    @property
    def secret(self) -> str:
        """The secret.

        Raises:
            RuntimeError: If the game is still running.
        """
        return self._env.transcript().secret

    @property
    def reason(self) -> str:
        """Why the game ended, with the secret.

        Raises:
            RuntimeError: If it is still running.
        """
        marks = next((turn.marks for turn in reversed(self.turns) if turn.marks is not None), "")
        placed = (marks.count("G") + marks.count("Y") / 2) / self.letters
        return texts.won() if self.won else texts.lost(self.secret, round(100 * placed))

    def step(self, message: str) -> Turn:
        """Play one message.

        Raises:
            RuntimeError: If the game is over.
        """
        lenient = self._reading is Reading.LENIENT
        said = _bracketed(message) if lenient else message
        known = self.board
        self._env.step(_first_word(said) if lenient else said)
        turn = self.turns[-1]
        left = self._env.observation.turns_left
        self.history += texts.played(said, turn, left, repeated=turn.guess in known, letters=self.letters)
        self.prompt = texts.ENV_ID
        return turn


def _bracketed(message: str) -> str:
    """Return a message as the original's wrapper passes it on.

    Examples:
        >>> _bracketed("crane"), _bracketed("my guess: [crane]")
        ('[crane]', 'my guess: [crane]')
    """
    return message if "[" in message or "]" in message else f"[{message}]"


def _first_word(message: str) -> str:
    found = _BRACKETED.search(message)
    return f"[{found[1]}]" if found else ""
