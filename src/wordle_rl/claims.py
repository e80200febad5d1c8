"""What a teacher's thinking claims and what the board says to it: only claims that can be checked exactly."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum

from wordle_rl.game import Turn, violates_clues
from wordle_rl.words import WordList


class FalseClaim(StrEnum):
    """What is wrong with a piece of thinking."""

    TAGS = "tags_in_thinking"
    """It holds tags of the reply grammar or of a chat template; a reply made from it would not be read back."""
    OTHER_GUESS = "thinking_announces_another_guess"
    """The last guess it announces is not the one that was made."""
    IMPOSSIBLE = "thinking_calls_a_ruled_out_word_possible"
    """It says that a listed word fits the board, and it does not."""


_TAGS = re.compile(r"</?(?:think|guess)>|<\|[\w./-]+\|>|</?s>|\[/?INST\]", re.IGNORECASE)

# A word in quotation marks, bold, brackets or plain; what is around it must not be a letter.
_WORD = r"[\"'“‘`*(\[]*\b([A-Za-z]+)\b[\"'”’`*)\]]*"
_ANNOUNCED = re.compile(
    r"(?:\b(?:my|the)\s+(?:next\s+|final\s+|best\s+|opening\s+|first\s+|last\s+)?guess\s+(?:is|will\s+be)"
    r"|\bI(?:'ll|’ll|\s+will|\s+shall)\s+(?:now\s+)?(?:guess|play|try|open\s+with|go\s+(?:with|for)|choose|pick)"
    r"|\b(?:let's|let’s|let\s+me)\s+(?:guess|play|try|go\s+(?:with|for))"
    r"|\bfinal\s+(?:answer|guess)\s*(?:is|:))"
    rf"\s*:?\s*{_WORD}\s*(?=[.,;!\n]|$)",
    re.IGNORECASE,
)
_FITS = re.compile(
    rf"{_WORD}\s+(?:(?:still|also)\s+)?"
    r"(?:fits\b(?!\s+(?:only|except))|is\s+(?:still\s+)?(?:possible|consistent|one\s+of\s+them)\b"
    r"|satisfies\s+(?:all|every)|(?:matches|works\s+with|meets)\s+(?:all|every|the)\b)",
    re.IGNORECASE,
)
_LISTED = re.compile(
    r"\b(?:candidates|possible\s+words|possibilities|words\s+that\s+(?:still\s+)?fit|remaining\s+words)"
    r"(?:\s+(?:left|now|are|include|remaining))*\s*(?::|\bare\b)\s*([A-Za-z \t,/&\"'“”‘’`*]+)",
    re.IGNORECASE,
)
# Listed words that stand where a candidate would; only in capitals are they taken for one.
_FILLERS = frozenset(
    ("which", "guess", "words", "these", "those", "there", "other", "first", "third", "final", "every", "still")
)
_NEGATION = re.compile(r"\b(?:if|whether|no|not|neither|nor|unless|suppose|perhaps)\s+$", re.IGNORECASE)


def false_claim(thinking: str, guess: str, board: Sequence[Turn], words: WordList) -> FalseClaim | None:
    """The first claim in some thinking that is not so, or None.

    Prose is free, so most claims cannot be checked; these are, exactly: leaked tags, the last guess announced in plain
    words, and listed words said to fit that contradict earlier marks.

    Args:
        thinking: What was thought before the guess.
        guess: The guess made.
        board: The turns before it.
        words: Only words of this list are taken for candidates.
    """
    if _TAGS.search(thinking):
        return FalseClaim.TAGS
    announced = [word for word in _found(_ANNOUNCED, thinking) if word in words]
    if announced and announced[-1] != guess:
        return FalseClaim.OTHER_GUESS
    if any(violates_clues(word, board) for word in called_possible(thinking, words)):
        return FalseClaim.IMPOSSIBLE
    return None


def called_possible(thinking: str, words: WordList) -> Iterator[str]:
    """The listed words that some thinking says fit the board, in lower case."""
    yield from (word for word in _found(_FITS, thinking) if word in words)
    for match in _LISTED.finditer(thinking):
        # A list of candidates holds nothing but words of the list and what joins them; a sentence is no list.
        parts = [part.lower() for part in re.findall(r"[A-Za-z]+", match[1])]
        named = [part for part in parts if part not in ("and", "or")]
        if named and all(part in words for part in named):
            yield from named


def _found(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    for match in pattern.finditer(text):
        negated = _NEGATION.search(text[max(0, match.start() - 20) : match.start()])
        filler = match[1].lower() in _FILLERS and not match[1].isupper()
        if not negated and not filler:
            yield match[1].lower()
