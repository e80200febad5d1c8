"""A system prompt of one's own: the placeholders in it, what is wrong with it, and what to call it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from wordle_rl.errors import UserError

PLACEHOLDERS = ("word_length", "max_turns", "example")
"""Placeholders that a text may hold in braces: facts of the game, and an example reply."""

_PIECE = re.compile(r"\{\{|\}\}|\{([^{}\n]*)\}|[{}]")
_DOUBLE = "write a brace that is meant as {{ or }}"
_SHOWN = 40


class PromptError(UserError):
    """A prompt that cannot be made; the message names the setting and the fix."""


def fault_in(text: str) -> str:
    """Error message with its fix, in one line; '' if every placeholder can be filled in.

    Examples:
        >>> fault_in("Reply with {example}.")
        ''
        >>> fault_in("Smile: }")
        'a single } in line 1; write a brace that is meant as {{ or }}'
    """
    if any("\ud800" <= character <= "\udfff" for character in text):
        return "not a text in UTF-8; convert it"
    for found in _PIECE.finditer(text):
        if found[0] in ("{", "}"):
            return f"a single {found[0]} in line {text.count(chr(10), 0, found.start()) + 1}; {_DOUBLE}"
        if found[1] is not None and found[1] not in PLACEHOLDERS:
            *names, last = (f"{{{name}}}" for name in PLACEHOLDERS)
            return f"unknown placeholder {{{found[1][:_SHOWN]}}}; use {', '.join(names)} or {last}, or {_DOUBLE}"
    return ""


def tidied(text: str) -> str:
    """The text with plain line breaks and nothing blank around it, so that a file and a command line give the same."""
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


def filled(text: str, values: Mapping[str, object]) -> str:
    """The text with its placeholders filled in; only for one without a fault.

    Examples:
        >>> filled("{{{max_turns}}} guesses", {"max_turns": 6})
        '{6} guesses'
    """
    return _PIECE.sub(lambda found: found[0][0] if found[1] is None else str(values[found[1]]), text)


def name_of(text: str | None) -> str:
    """Short name of a system prompt: its first words, and a hash.

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
