"""The grammar of a reply: optional thinking and exactly one guess. Prose never becomes a guess."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Protocol


class Thinking(StrEnum):
    """Thinking before the guess: forbidden, allowed or required."""

    OFF = "off"
    OPTIONAL = "optional"
    REQUIRED = "required"


class FailureReason(StrEnum):
    """Reason why a reply has no guess."""

    NO_GUESS = "no_guess"
    """No guess outside the thinking."""
    SEVERAL_GUESSES = "several_guesses"
    """More than one guess, or a guess tag inside the thinking."""
    TEXT_OUTSIDE_TAGS = "text_outside_tags"
    """Text before the guess that is not thinking, or a second thought."""
    TEXT_AFTER_GUESS = "text_after_guess"
    THINKING_UNCLOSED = "thinking_unclosed"
    """The thinking tags do not match: one is left open, closed twice or nested."""
    THINKING_MISSING = "thinking_missing"
    """No thinking although it is required."""
    THINKING_NOT_ALLOWED = "thinking_not_allowed"
    """Thinking although it is off."""
    NOT_A_WORD = "not_a_word"
    """A guess with characters other than a to z."""


@dataclass(frozen=True, slots=True)
class Guess:
    """A guess: the word in lower case, and the thinking before it."""

    word: str
    thinking: str = ""


@dataclass(frozen=True, slots=True)
class ParseFailure:
    """A reply outside the grammar, and whether it has some tag."""

    reason: FailureReason
    has_tags: bool = False


@dataclass(frozen=True)
class _Grammar:
    # No pattern has two adjacent repeats of the same characters, so matching takes linear time on any input.

    whole: re.Pattern[str]  # a whole reply: thinking and word
    guess: re.Pattern[str]  # a guess anywhere
    barred: re.Pattern[str]  # what thinking must not contain
    tag: re.Pattern[str]  # any sign of the grammar


THINK_TAGS = ("<think>", "</think>")
"""Opening and closing tag of thinking, in every style."""

_THINKING = r"\s*(?:<think>(.*?)</think>\s*)?"
_TAGGED = _Grammar(
    whole=re.compile(_THINKING + r"<guess>([^<>]*)</guess>\s*", re.DOTALL),
    guess=re.compile(r"<guess>[^<>]*</guess>"),
    barred=re.compile(r"</?(?:think|guess)>"),
    tag=re.compile(r"</?(?:think|guess)>"),
)
_BRACKETED = _Grammar(
    whole=re.compile(_THINKING + r"\[([^\[\]]*)\]\s*", re.DOTALL),
    guess=re.compile(r"\[[^\[\]]*\]"),
    barred=re.compile(r"</?think>"),
    tag=re.compile(r"</?think>|\[[^\[\]]*\]"),
)


_IN_BOTH = _Grammar(
    whole=re.compile(_THINKING + r"<guess>\s*\[([^<>\[\]]*)\]\s*</guess>\s*", re.DOTALL),
    guess=re.compile(r"<guess>\s*\[[^<>\[\]]*\]\s*</guess>"),
    barred=_TAGGED.barred,
    tag=_TAGGED.tag,
)

TAGS, BRACKETS, TAGGED_BRACKETS = ("<guess>", "</guess>"), ("[", "]"), ("<guess>[", "]</guess>")
"""What stands before and after a guess, in the three forms of `TaggedForm`."""
_GRAMMARS = {TAGS: _TAGGED, BRACKETS: _BRACKETED, TAGGED_BRACKETS: _IN_BOTH}


def parse_reply(reply: str, thinking: Thinking = Thinking.OPTIONAL, *, brackets: bool = False) -> Guess | ParseFailure:
    """Parse a reply: optional thinking, exactly one guess, nothing else. Prose never becomes a guess.

    Examples:
        >>> parse_reply("<guess>CRANE</guess>")
        Guess(word='crane', thinking='')
        >>> parse_reply("<think>a or o?</think>\\n<guess>crane</guess>").thinking
        'a or o?'
        >>> parse_reply("I guess crane").reason.value
        'no_guess'
        >>> parse_reply("[crane]", brackets=True).word
        'crane'
    """
    return _parsed(reply, thinking, BRACKETS if brackets else TAGS)


class ReplyForm(Protocol):
    """How the replies of a style are written and read."""

    @property
    def guess_tags(self) -> tuple[str, str]:
        """Opening and closing tag of a guess."""

    @property
    def has_thinking(self) -> bool:
        """False if a reply has no place for thinking."""

    def parse(self, reply: str, thinking: Thinking, word_length: int) -> Guess | ParseFailure:
        """Read a reply."""

    def write(self, word: str, thought: str, thinking: Thinking) -> str:
        """Write a well-formed reply."""


@dataclass(frozen=True)
class TaggedForm:
    """Optional thinking, and a guess between tags."""

    guess_tags: tuple[str, str] = TAGS
    separator: str = "\n"
    """Between thinking and guess."""
    has_thinking: bool = True

    def parse(self, reply: str, thinking: Thinking, word_length: int) -> Guess | ParseFailure:  # noqa: ARG002
        """See `ReplyForm`; the rules check the length of a guess."""
        return _parsed(reply, thinking, self.guess_tags)

    def write(self, word: str, thought: str, thinking: Thinking) -> str:
        """See `ReplyForm`."""
        guess = word.join(self.guess_tags)
        if thinking is Thinking.OFF or (not thought and thinking is Thinking.OPTIONAL):
            return guess
        return f"<think>{thought}</think>{self.separator}{guess}"


_SHORT = 40
"""Cache the parse of replies up to this length in characters: they are little more than a guess and recur often."""


def _read(reply: str, thinking: Thinking, tags: tuple[str, str]) -> Guess | ParseFailure:
    grammar = _GRAMMARS[tags]
    match = grammar.whole.fullmatch(reply)
    if match is None or grammar.barred.search(match[1] or ""):
        return ParseFailure(_failure_reason(reply, grammar), has_tags=grammar.tag.search(reply) is not None)
    thought, word = match[1], match[2].strip()
    if thought is None and thinking is Thinking.REQUIRED:
        return ParseFailure(FailureReason.THINKING_MISSING, has_tags=True)
    if thought is not None and thinking is Thinking.OFF:
        return ParseFailure(FailureReason.THINKING_NOT_ALLOWED, has_tags=True)
    if not (word.isascii() and word.isalpha()):
        return ParseFailure(FailureReason.NOT_A_WORD, has_tags=True)
    return Guess(word.lower(), (thought or "").strip())


_read_short = lru_cache(maxsize=1 << 14)(_read)


def _parsed(reply: str, thinking: Thinking, tags: tuple[str, str]) -> Guess | ParseFailure:
    return (_read_short if len(reply) <= _SHORT else _read)(reply, thinking, tags)


def lenient_guess(reply: str, word_length: int) -> Guess | None:
    """Return the word that a reply outside the grammar most likely means, or None. For figures alone, never training.

    It is the last word of the right length that stands out, behind a bracket, quote, asterisk or colon or in capitals;
    else the last of all. Thinking does not count.

    Examples:
        >>> lenient_guess("My first guess is **crane**, since its letters are common.", 5)
        Guess(word='crane', thinking='')
        >>> lenient_guess("I guess crane", 5).word, lenient_guess("<think>crane?</think> Hm.", 5)
        ('crane', None)
    """
    spoken = _THOUGHTS.sub(" ", reply).replace("<guess>", ":").replace("</guess>", " ")
    word = f"[A-Za-z]{{{word_length}}}(?![A-Za-z])"
    stands_out = rf"(?:[\[(:]\s*|[\"'“‘`*])({word})|(?<![A-Za-z])((?=[A-Z]{{{word_length}}}){word})"
    found = re.findall(stands_out, spoken)
    last = found[-1] if found else re.findall(f"(?<![A-Za-z]){word}", spoken)[-1:]
    return Guess("".join(last).lower()) if last else None


_THOUGHTS = re.compile(r"<think>.*?(?:</think>|$)", re.DOTALL)


def with_opened_thought(reply: str) -> str:
    """Put back the `<think>` that a prompt ended with, so that a server's text is a complete reply.

    Examples:
        >>> with_opened_thought("a or o?</think><guess>crane</guess>")
        '<think>a or o?</think><guess>crane</guess>'
        >>> with_opened_thought("<think>o</think><guess>crane</guess>")
        '<think>o</think><guess>crane</guess>'
    """
    return f"<think>{reply}" if "</think>" in reply.split("<think>", 1)[0] else reply


def without_thinking(reply: str) -> str:
    """Return what a reply says outside its thinking; a thought that is not closed lasts to the end.

    Examples:
        >>> without_thinking("<think>a or o?</think>\\n<guess>crane</guess>")
        '<guess>crane</guess>'
        >>> without_thinking("<think>a or")
        ''
    """
    return "".join(re.split("</?think>", with_opened_thought(reply))[::2]).strip()


def _failure_reason(reply: str, grammar: _Grammar) -> FailureReason:
    parts = re.split(r"(</?think>)", reply)
    if parts[1::2] != ["<think>", "</think>"] * (len(parts) // 4):
        return FailureReason.THINKING_UNCLOSED
    spoken, thought = "".join(parts[::4]), "".join(parts[2::4])
    found = grammar.guess.findall(spoken)
    if not found:
        return FailureReason.NO_GUESS
    if len(found) > 1 or grammar.barred.search(thought):
        return FailureReason.SEVERAL_GUESSES
    return FailureReason.TEXT_OUTSIDE_TAGS if reply.rstrip().endswith(found[0]) else FailureReason.TEXT_AFTER_GUESS
