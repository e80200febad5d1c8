"""The only home of tags and wording: game state -> chat messages, reply -> `Guess` or `ParseFailure`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypedDict

from wordle_rl.game import Dictionary, Outcome, Rules, Turn


class Message(TypedDict):
    """One chat message, as every chat template takes it."""

    role: str
    content: str


class Style(StrEnum):
    """How a game is put into words."""

    ENGLISH = "english"
    """The whole state in plain sentences; what small pretrained models follow best."""
    SYMBOLS = "symbols"
    """Each guess beside its coloured squares."""
    COMPACT = "compact"
    """Each letter followed by its mark, nothing else; one token a letter for the embedded model."""
    TEXTARENA = "textarena"
    """Bracketed guesses and spaced G/Y/X lines, for models trained on TextArena."""


class Shape(StrEnum):
    """What one turn's prompt is."""

    TRANSCRIPT = "transcript"
    """The whole game is one growing conversation."""
    STATE = "state"
    """Every turn restates the game in a fresh prompt."""


class Thinking(StrEnum):
    """Whether a reply may reason before it guesses."""

    OFF = "off"
    OPTIONAL = "optional"
    REQUIRED = "required"


class FailureReason(StrEnum):
    """Why a reply held no guess."""

    NO_GUESS = "no_guess"
    SEVERAL_GUESSES = "several_guesses"
    TEXT_OUTSIDE_TAGS = "text_outside_tags"
    TEXT_AFTER_GUESS = "text_after_guess"
    THINKING_UNCLOSED = "thinking_unclosed"
    """The thinking tags do not pair up: one is left open, closed twice or nested."""
    THINKING_MISSING = "thinking_missing"
    THINKING_NOT_ALLOWED = "thinking_not_allowed"
    NOT_A_WORD = "not_a_word"


@dataclass(frozen=True, slots=True)
class Guess:
    """A well-formed reply: the word in lower case and the thinking before it (empty if none)."""

    word: str
    thinking: str = ""


@dataclass(frozen=True, slots=True)
class ParseFailure:
    """A reply outside the grammar, and whether it at least used some tag."""

    reason: FailureReason
    has_tags: bool = False


@dataclass(frozen=True)
class _Grammar:
    """One way to write a reply. No pattern has two neighbouring repeats of the same characters: reading stays linear.

    `whole` takes a whole reply apart into thinking and word, `guess` finds a guess anywhere, `barred` what thinking
    must not hold, `tag` any sign that the grammar was tried.
    """

    whole: re.Pattern[str]
    guess: re.Pattern[str]
    barred: re.Pattern[str]
    tag: re.Pattern[str]


THINK_TAGS = ("<think>", "</think>")
"""What opens and closes thinking, in every style."""

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


def parse_reply(reply: str, thinking: Thinking = Thinking.OPTIONAL, *, brackets: bool = False) -> Guess | ParseFailure:
    """Read a reply: optional thinking, exactly one guess, nothing else. Prose never becomes a guess.

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
    grammar = _BRACKETED if brackets else _TAGGED
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


def with_opened_thought(reply: str) -> str:
    """A whole reply from what a server sends where the prompt itself had opened the thought.

    Examples:
        >>> with_opened_thought("a or o?</think><guess>crane</guess>")
        '<think>a or o?</think><guess>crane</guess>'
        >>> with_opened_thought("<think>o</think><guess>crane</guess>")
        '<think>o</think><guess>crane</guess>'
    """
    return f"<think>{reply}" if "</think>" in reply.split("<think>", 1)[0] else reply


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
    return FailureReason.TEXT_AFTER_GUESS if not spoken.rstrip().endswith(found[0]) else FailureReason.TEXT_OUTSIDE_TAGS


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What the marks so far prove about the secret.

    `placed[i]` is the letter proved at place i or None; `misplaced` maps a letter to the places (from 0)
    where it is known not to stand although the word holds it; `at_least` counts proved copies;
    `exactly` holds letters whose number is known; `absent` letters that do not occur.
    """

    placed: tuple[str | None, ...]
    misplaced: dict[str, tuple[int, ...]]
    at_least: dict[str, int]
    exactly: dict[str, int]
    absent: tuple[str, ...]


def knowledge_of(turns: Sequence[Turn], word_length: int) -> Knowledge:
    """Gather every scored turn's marks into one `Knowledge`."""
    placed: list[str | None] = [None] * word_length
    misplaced: dict[str, set[int]] = {}
    at_least: dict[str, int] = {}
    exactly: dict[str, int] = {}
    for turn in turns:
        if turn.guess is None or turn.marks is None:
            continue
        found: dict[str, int] = {}
        for letter, mark in zip(turn.guess, turn.marks, strict=True):
            found[letter] = found.get(letter, 0) + (mark != "X")
        for place, (letter, mark) in enumerate(zip(turn.guess, turn.marks, strict=True)):
            if mark == "G":
                placed[place] = letter
            elif found[letter]:
                misplaced.setdefault(letter, set()).add(place)
            if mark == "X":
                exactly[letter] = found[letter]
            if found[letter]:
                at_least[letter] = max(at_least.get(letter, 0), found[letter])
    return Knowledge(
        placed=tuple(placed),
        misplaced={letter: tuple(sorted(places)) for letter, places in sorted(misplaced.items())},
        at_least=dict(sorted(at_least.items())),
        exactly=dict(sorted((letter, n) for letter, n in exactly.items() if n)),
        absent=tuple(sorted(letter for letter, n in exactly.items() if n == 0)),
    )


_SQUARES = {"G": "🟩", "Y": "🟨", "X": "⬛"}
_ERRORS = {
    Outcome.MALFORMED: "That reply held no readable guess.",
    Outcome.WRONG_LENGTH: "That guess has the wrong number of letters.",
    Outcome.UNLISTED: "That guess is not in the word list.",
    Outcome.HARD_MODE: "Hard mode: that guess leaves out a revealed hint.",
}


def _ordinal_places(places: Sequence[int]) -> str:
    return ", ".join(str(place + 1) for place in places)


def describe_knowledge(known: Knowledge) -> list[str]:
    """Put knowledge into plain sentences, one per line, without any line that says nothing."""
    lines = []
    placed = [f"{letter} at {place + 1}" for place, letter in enumerate(known.placed) if letter]
    if placed:
        lines.append(f"Letters in their place: {'; '.join(placed)}.")
    elsewhere = [
        f"{letter} (not at {_ordinal_places(places)})"
        for letter, places in known.misplaced.items()
        if sum(p == letter for p in known.placed) < known.at_least[letter]
    ]
    if elsewhere:
        lines.append(f"Letters to place: {'; '.join(elsewhere)}.")
    counted = [f"{n} {letter}" for letter, n in known.exactly.items()]
    if counted:
        lines.append(f"No more than: {', '.join(counted)}.")
    repeated = [f"{n} {letter}" for letter, n in known.at_least.items() if n > 1 and letter not in known.exactly]
    if repeated:
        lines.append(f"At least: {', '.join(repeated)}.")
    if known.absent:
        lines.append(f"Letters not in the word: {' '.join(known.absent)}.")
    return lines


def _english(turn: Turn) -> str:
    if turn.marks is None or turn.guess is None:
        return _ERRORS[turn.outcome]
    words = {"G": "in its place", "Y": "elsewhere in the word", "X": "no (further) copy"}
    parts = [f"{letter}: {words[mark]}" for letter, mark in zip(turn.guess, turn.marks, strict=True)]
    return f"{turn.guess}: {', '.join(parts)}."


def _symbols(turn: Turn) -> str:
    if turn.marks is None or turn.guess is None:
        return _ERRORS[turn.outcome]
    return f"{turn.guess} {''.join(_SQUARES[mark] for mark in turn.marks)}"


_COMPACT_ERRORS = {
    Outcome.MALFORMED: "!",
    Outcome.WRONG_LENGTH: "#",
    Outcome.UNLISTED: "?",
    Outcome.HARD_MODE: "%",
}


def _compact(turn: Turn) -> str:
    if turn.marks is None or turn.guess is None:
        return _COMPACT_ERRORS[turn.outcome]
    return "".join(letter + mark for letter, mark in zip(turn.guess, turn.marks, strict=True))


def _textarena(turn: Turn) -> str:
    if turn.marks is None or turn.guess is None:
        return _ERRORS[turn.outcome]
    return f"{' '.join(turn.guess.upper())}\n{' '.join(turn.marks)}"


_DESCRIBE: dict[Style, Callable[[Turn], str]] = {
    Style.ENGLISH: _english,
    Style.SYMBOLS: _symbols,
    Style.COMPACT: _compact,
    Style.TEXTARENA: _textarena,
}


@dataclass(frozen=True)
class Prompter:
    """Turns a game into messages and replies into guesses, for one style, shape and set of rules.

    Raises:
        ValueError: If there is no such style, shape or setting of thinking.
    """

    style: Style = Style.ENGLISH
    shape: Shape = Shape.TRANSCRIPT
    thinking: Thinking = Thinking.OPTIONAL
    word_length: int = 5
    rules: Rules = field(default_factory=Rules)

    def __post_init__(self) -> None:
        # Plain strings equal the members but are not them, so a style "compact" would half work.
        object.__setattr__(self, "style", Style(self.style))
        object.__setattr__(self, "shape", Shape(self.shape))
        object.__setattr__(self, "thinking", Thinking(self.thinking))

    def parse(self, reply: str) -> Guess | ParseFailure:
        """Read a reply by this style's grammar."""
        return parse_reply(reply, self.thinking, brackets=self.style is Style.TEXTARENA)

    @property
    def guess_tags(self) -> tuple[str, str]:
        """What opens and what closes a guess."""
        return ("[", "]") if self.style is Style.TEXTARENA else ("<guess>", "</guess>")

    def reply(self, word: str, thinking: str = "") -> str:
        """Write a well-formed reply: what a teacher says and what the parser takes back."""
        guess = word.join(self.guess_tags)
        if self.thinking is Thinking.OFF or (not thinking and self.thinking is Thinking.OPTIONAL):
            return guess
        separator = "" if self.style is Style.COMPACT else "\n"
        return f"<think>{thinking}</think>{separator}{guess}"

    def opening(self, given: Sequence[Turn] = ()) -> list[Message]:
        """The first prompt of a game in which `given` turns have already been played.

        A transcript shows them as turns of the conversation, a state prompt restates them.
        """
        if self.shape is Shape.STATE:
            return self.state(given)
        messages = [*self._system(), Message(role="user", content=self._start())]
        for count, turn in enumerate(given, start=1):
            messages.append(Message(role="assistant", content=self.reply(turn.guess or "")))
            messages.append(self.feedback(given[:count]))
        return messages

    def feedback(self, turns: Sequence[Turn]) -> Message:
        """The message that answers the last of `turns` in a transcript."""
        last = _DESCRIBE[self.style](turns[-1])
        if self.style is Style.COMPACT:
            return Message(role="user", content=last)
        lines = [last]
        if self.style is Style.ENGLISH:
            lines += describe_knowledge(knowledge_of(turns, self.word_length))
        return Message(role="user", content="\n".join([*lines, self._turns_left(turns)]))

    def state(self, turns: Sequence[Turn]) -> list[Message]:
        """A fresh prompt that restates the whole game."""
        if not turns:
            return [*self._system(), Message(role="user", content=self._start())]
        describe = _DESCRIBE[self.style]
        if self.style is Style.COMPACT:
            board = "\n".join([self._start(), *(describe(turn) for turn in turns)])
            return [Message(role="user", content=board)]
        lines = ["Guesses so far:", *(describe(turn) for turn in turns)]
        if self.style is Style.ENGLISH:
            lines += describe_knowledge(knowledge_of(turns, self.word_length))
        return [*self._system(), Message(role="user", content="\n".join([*lines, self._turns_left(turns)]))]

    def _start(self) -> str:
        if self.style is Style.COMPACT:
            return f"{self.word_length}x{self.rules.max_turns}"
        return f"A new game: {self.word_length} letters, {self.rules.max_turns} guesses. Your first guess?"

    def _turns_left(self, turns: Sequence[Turn]) -> str:
        left = self.rules.max_turns - sum(turn.costs_turn for turn in turns)
        return f"{left} {'guess' if left == 1 else 'guesses'} left."

    def _system(self) -> list[Message]:
        rules = system_prompt(self)
        return [Message(role="system", content=rules)] if rules else []


def system_prompt(prompter: Prompter) -> str:
    """The rules as told to a language model, worded for the prompter's style; the compact style says nothing."""
    if prompter.style is Style.COMPACT:
        return ""
    legend = {
        Style.ENGLISH: "you are told, letter by letter, whether it is in its place, elsewhere in the word, or has no "
        "(further) copy in it",
        Style.SYMBOLS: "each letter gets a square: 🟩 in its place, 🟨 elsewhere in the word, "
        "⬛ no (further) copy in it",
        Style.TEXTARENA: "each letter gets a mark: G in its place, Y elsewhere in the word, X no (further) copy in it",
    }[prompter.style]
    form = {
        Thinking.OFF: f"Reply with nothing but {prompter.reply('crane')}.",
        Thinking.OPTIONAL: f"Reply with {prompter.reply('crane')}; you may reason first inside <think>…</think>.",
        Thinking.REQUIRED: f"Reason first, briefly, then guess: {prompter.reply('crane', '…')}".replace("\n", ""),
    }[prompter.thinking]
    dictionary = {
        Dictionary.STRICT: "Guesses must be listed English words; any other reply wastes the turn.",
        Dictionary.LENIENT: f"Any {prompter.word_length} letters may be guessed; any other reply wastes the turn.",
        Dictionary.APP: "Guesses must be listed English words; any other reply is refused.",
    }[prompter.rules.dictionary]
    hard = " Every hint revealed must be used in later guesses." if prompter.rules.hard_mode else ""
    return (
        f"Find the secret {prompter.word_length}-letter word in at most {prompter.rules.max_turns} guesses. "
        f"After each guess {legend}. {dictionary}{hard}\n{form} Write exactly one guess and nothing after it."
    )
