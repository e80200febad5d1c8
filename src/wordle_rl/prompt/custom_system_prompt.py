"""Your own system prompt: placeholders, checks, and a short name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from wordle_rl.errors import UserError

PLACEHOLDERS = ("word_length", "max_turns", "example")
"""Placeholders that a text can have in braces: facts of the game, and an example reply."""

_PIECE = re.compile(r"\{\{|\}\}|\{([^{}\n]*)\}|[{}]")
_DOUBLE = "write a literal brace as {{ or }}"
_SHOWN = 40


class PromptError(UserError):
    """A prompt that cannot be built; the message names the setting and the fix."""


def fault_in(text: str) -> str:
    """Return an error message with its fix, in one line; '' if all placeholders are valid.

    Examples:
        >>> fault_in("Reply with {example}.")
        ''
        >>> fault_in("Smile: }")
        'a single } in line 1; write a literal brace as {{ or }}'
    """
    if any("\ud800" <= character <= "\udfff" for character in text):
        return "not valid UTF-8 text; convert it"
    for found in _PIECE.finditer(text):
        if found[0] in ("{", "}"):
            return f"a single {found[0]} in line {text.count(chr(10), 0, found.start()) + 1}; {_DOUBLE}"
        if found[1] is not None and found[1] not in PLACEHOLDERS:
            *names, last = (f"{{{name}}}" for name in PLACEHOLDERS)
            return f"unknown placeholder {{{found[1][:_SHOWN]}}}; use {', '.join(names)} or {last}, or {_DOUBLE}"
    return ""


def tidied(text: str) -> str:
    """Normalise line breaks and strip blanks, so that a file and a command line give the same prompt."""
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


def filled(text: str, values: Mapping[str, object]) -> str:
    """Fill in the placeholders of a text that has passed `fault_in`.

    Examples:
        >>> filled("{{{max_turns}}} guesses", {"max_turns": 6})
        '{6} guesses'
    """
    return _PIECE.sub(lambda found: found[0][0] if found[1] is None else str(values[found[1]]), text)


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
