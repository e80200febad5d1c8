"""Check a teacher's thinking against the board, where a claim can be checked exactly."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum

from wordle_rl.game import Turn, violates_clues
from wordle_rl.words import WordList


class FalseClaim(StrEnum):
    """Kinds of false claims."""

    TAGS = "tags_in_thinking"
    """Tags of the reply grammar or of a chat template. A reply made from it could not be parsed."""
    OTHER_GUESS = "thinking_announces_another_guess"
    """The last announced guess is not the one made."""
    IMPOSSIBLE = "thinking_calls_a_ruled_out_word_possible"
    """A listed word is said to fit the board but does not."""


_TAGS = re.compile(
    r"</?(?:think|guess)>|<[|｜][^\s<>|｜]+[|｜]>|<(?:start|end)_of_turn>|<(?:bos|eos|pad)>|</?s>|\[/?INST\]",
    re.IGNORECASE,
)

# A word, plain or in quotation marks, bold or brackets; no letter may touch it.
_WORD = r"[\"'“‘`*(\[]*\b([A-Za-z]+)\b[\"'”’`*)\]]*"
_ANNOUNCED = re.compile(
    r"(?:\b(?:my|the)\s+(?:next\s+|final\s+|best\s+|opening\s+|first\s+|last\s+)?guess\s+(?:is|will\s+be)"
    r"|\bI(?:'ll|’ll|\s+will|\s+shall)\s+(?:now\s+)?(?:guess|play|try|open\s+with|go\s+(?:with|for)|choose|pick)"
    r"|\b(?:let's|let’s|let\s+me)\s+(?:guess|play|try|go\s+(?:with|for))"
    r"|\bfinal\s+(?:answer|guess)\s*(?:is|:))"
    rf"\s*:?\s*{_WORD}\s*(?=[.,;!\n]|$)",
    re.IGNORECASE,
)
# Later in a game, "the first guess is" refers to the board, not to the next guess.
_OF_THE_BOARD = re.compile(r"\b(?:opening|first|last)\s+guess\s+is\b", re.IGNORECASE)
# All clues. "The A and the E" or "the green letters" would be only some of them.
_CLUES = (
    r"(?:everything\b|(?:all|every|each|the)\s+(?:of\s+)?(?:the\s+)?(?:known\s+|given\s+|earlier\s+|previous\s+|current\s+)?"
    r"(?:clues?|marks?|hints?|constraints?|conditions?|requirements?|criteria|rules|feedback|board)\b)"
)
_END = r"(?=[\s*]*(?:[.,;:!?)\n–—]|$)|\s+(?:and|so|too|perfectly|well|here|now)\b)"
_FITS = re.compile(
    rf"{_WORD}\s+(?:(?:still|also)\s+)?"
    rf"(?:fits\b(?:{_END}|\s+(?:with\s+)?{_CLUES})|(?:satisfies|matches|works\s+with|meets)\s+(?:{_CLUES}|all{_END})"
    rf"|is\s+(?:still\s+)?(?:possible|one\s+of\s+them|consistent(?:\s+with\s+{_CLUES})?){_END})",
    re.IGNORECASE,
)
# A rest of the sentence that takes the claim back or weakens it.
_TAKEN_BACK = re.compile(r"[^.!?;\n]*(?:\?|\b(?:but|except|however|though|although)\b)", re.IGNORECASE)
_LISTED = re.compile(
    r"\b(?:candidates|possible\s+words|possibilities|words\s+that\s+(?:still\s+)?fit|remaining\s+words)"
    r"(?:\s+(?:left|now|are|include|remaining))*\s*(?::|\bare\b)\s*([A-Za-z \t,/&\"'“”‘’`*]+)",
    re.IGNORECASE,
)
# Listed words that often stand in place of a candidate. Only in capitals do they count as one.
_FILLERS = frozenset(
    (
        *("which", "guess", "words", "these", "those", "there", "other", "first", "third", "final", "every", "still"),
        *("again", "later", "maybe", "safer", "smart"),
    )
)
_NEGATION = re.compile(r"\b(?:if|whether|no|not|neither|nor|unless|suppose|perhaps)\s+$", re.IGNORECASE)


def false_claim(thinking: str, guess: str, board: Sequence[Turn], words: WordList) -> FalseClaim | None:
    """Return the first false claim of some thinking, or None.

    Three things can be checked exactly in free prose: leaked tags, whether the last announced guess is the one made,
    and whether listed words said to fit the board do fit. `board` holds the turns before the guess.
    """
    if _TAGS.search(thinking):
        return FalseClaim.TAGS
    past = {turn.guess for turn in board}
    announced = [
        word
        for match in _found(_ANNOUNCED, thinking)
        if (word := match[1].lower()) in words and not (word in past and _OF_THE_BOARD.search(match[0]))
    ]
    if announced and announced[-1] != guess:
        return FalseClaim.OTHER_GUESS
    if any(violates_clues(word, board) for word in called_possible(thinking, words)):
        return FalseClaim.IMPOSSIBLE
    return None


def called_possible(thinking: str, words: WordList) -> Iterator[str]:
    """Yield listed words, in lower case, that the thinking says fit the board."""
    for match in _found(_FITS, thinking):
        if match[1].lower() in words and not _TAKEN_BACK.match(thinking, match.end()):
            yield match[1].lower()
    for match in _LISTED.finditer(thinking):
        if _TAKEN_BACK.match(thinking, match.end()):
            continue
        # A list of candidates holds only listed words and separators; anything else is a sentence.
        parts = [part.lower() for part in re.findall(r"[A-Za-z]+", match[1])]
        named = [part for part in parts if part not in ("and", "or")]
        if named and all(part in words for part in named):
            yield from named


def _found(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    for match in pattern.finditer(text):
        negated = _NEGATION.search(text[max(0, match.start() - 20) : match.start()])
        filler = match[1].lower() in _FILLERS and not match[1].isupper()
        if not negated and not filler:
            yield match
