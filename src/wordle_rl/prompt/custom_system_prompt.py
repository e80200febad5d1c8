"""Your own system prompt: placeholders, checks, and a short name."""

from __future__ import annotations

import hashlib
from string import Formatter

from wordle_rl.errors import UserError

PLACEHOLDERS = ("word_length", "max_turns", "example")
"""Placeholders that a text can have in braces: facts of the game, and an example reply."""
_SHOWN = 40


class PromptError(UserError):
    """A prompt that cannot be built; the message names the setting and the fix."""


def fault_in(text: str) -> str:
    """Return an error message with its fix, in one line; '' if `text.format` can fill in all placeholders."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        return "not valid UTF-8 text; convert it"
    fix = f"use {', '.join(f'{{{name}}}' for name in PLACEHOLDERS)}, or write a literal brace as {{{{ or }}}}"
    try:
        for _, name, form, conversion in Formatter().parse(text):
            if name is not None and (name not in PLACEHOLDERS or form or conversion):
                return f"unknown placeholder {{{' '.join(name.split())[:_SHOWN]}}}; {fix}"
    except ValueError as error:  # a single brace
        return f"{error}; {fix}"
    return ""


def tidied(text: str) -> str:
    """Normalise line breaks and strip blanks, so that a file and a command line give the same prompt."""
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


def name_of(text: str | None) -> str:
    """Return a short name of a system prompt: its first words and a hash.

    Examples:
        >>> name_of(None), name_of("")
        ("the style's own", 'none')
        >>> name_of("You play a game of words. Find the secret word.")
        "'You play a game of words. Find the secre…' (62d158)"
    """
    if not text:
        return "the style's own" if text is None else "none"
    words = " ".join(text.split())
    shown = words if len(words) <= _SHOWN else f"{words[:_SHOWN]}…"
    return f"'{shown}' ({hashlib.sha256(text.encode()).hexdigest()[:6]})"
