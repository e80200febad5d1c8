"""Every message of a game to a model, in one style and one shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, lru_cache
from operator import add
from string import ascii_lowercase

from typing_extensions import TypedDict  # pydantic reads no other before Python 3.12

from wordle_rl.game import Dictionary, Outcome, Rules, Turn
from wordle_rl.import_paths import is_import_path
from wordle_rl.prompt import textarena_texts
from wordle_rl.prompt.custom_system_prompt import PromptError, fault_in, filled, tidied
from wordle_rl.prompt.knowledge import knowledge_lines
from wordle_rl.prompt.notebook import NotebookStyle
from wordle_rl.prompt.reply import Guess, ParseFailure, Thinking, parse_leniently, parse_reply, parse_spelled
from wordle_rl.prompt.style_texts import StyleTexts, find_style
from wordle_rl.words import EXAMPLE_WORDS


class Message(TypedDict):
    """One chat message."""

    role: str
    content: str


class Style(StrEnum):
    """Wording of a game."""

    ENGLISH = "english"
    """The whole state in plain sentences; small pretrained models follow this best."""
    SYMBOLS = "symbols"
    """Each guess with coloured squares."""
    COMPACT = "compact"
    """Each letter followed by its mark and nothing else; one token per letter for the embedded model."""
    TEXTARENA = "textarena"
    """Guesses in brackets and spaced G/Y/X lines, with our own wording of the rules."""
    TEXTARENA_ORIGINAL = "textarena_original"
    """TextArena's texts, word for word, for models trained in its environment; no system message."""
    NOTEBOOK = "notebook"
    """User message of TRL and OpenEnv's notebook, `Game prompt: … Conversation so far: …`; shape
    `state` sends one in every turn, as the notebook does."""
    NOTEBOOK_PLAYER0 = "notebook_player0"
    """The same in the texts of the first notebook, `You are Player 0 in Wordle.`, which its published model read."""
    LETTERS = "letters"
    """Each letter with a symbol, `C(✓) R(-) A(x)`, for models trained on such prompts."""
    SPELLED = "spelled"
    """Replies `c r a n e`, feedback `X Y X X G`, hardly anything else: one token per letter for models whose tokens are
    pieces of words. No thinking."""


def style_named(name: str) -> Style | str:
    """Return the built-in style of this name, or the import path of your own, which is not imported yet.

    Raises:
        PromptError: If it is neither.
    """
    if is_import_path(name):
        return name
    if name not in [*Style]:
        raise PromptError(f"unknown style {name!r}; use {', '.join(Style)}, or an import path (module:attribute)")
    return Style(name)


class Shape(StrEnum):
    """Content of the prompt of a turn."""

    TRANSCRIPT = "transcript"
    """The whole game is one growing conversation."""
    STATE = "state"
    """Every turn restates the game in a fresh prompt."""


_ERRORS = {
    Outcome.MALFORMED: "That reply held no readable guess.",
    Outcome.WRONG_LENGTH: "That guess has the wrong number of letters.",
    Outcome.UNLISTED: "That guess is not in the word list.",
    Outcome.HARD_MODE: "Hard mode: that guess leaves out a revealed hint.",
}


_COMPACT_ERRORS = {
    Outcome.MALFORMED: "!",
    Outcome.WRONG_LENGTH: "#",
    Outcome.UNLISTED: "?",
    Outcome.HARD_MODE: "%",
}
_SPELLED_ERRORS = {
    Outcome.MALFORMED: "format",
    Outcome.WRONG_LENGTH: "length",
    Outcome.UNLISTED: "unknown",
    Outcome.HARD_MODE: "hint",
}
_ERRORS_OF = {Style.COMPACT: _COMPACT_ERRORS, Style.SPELLED: _SPELLED_ERRORS}
_ENGLISH = {
    letter + mark: f"{letter}: {meaning}"
    for letter in ascii_lowercase
    for mark, meaning in {"G": "in its place", "Y": "elsewhere in the word", "X": "no (further) copy"}.items()
}
_LETTERS = {
    letter + mark: f"{letter.upper()}({symbol})"
    for letter in ascii_lowercase
    for mark, symbol in {"G": "✓", "Y": "-", "X": "x"}.items()
}
_SQUARES = str.maketrans({"G": "🟩", "Y": "🟨", "X": "⬛"})


def _english(guess: str, marks: str) -> str:
    return f"{guess}: {', '.join([_ENGLISH[pair] for pair in map(add, guess, marks)])}."


def _symbols(guess: str, marks: str) -> str:
    return f"{guess} {marks.translate(_SQUARES)}"


def _compact(guess: str, marks: str) -> str:
    return "".join(map(add, guess, marks))


def _letters(guess: str, marks: str) -> str:
    return " ".join([_LETTERS[pair] for pair in map(add, guess, marks)])


def _spelled(guess: str, marks: str) -> str:
    return f"{' '.join(guess)}\n{' '.join(marks)}"


_LINES: dict[Style, Callable[[str, str], str]] = {
    Style.ENGLISH: _english,
    Style.SYMBOLS: _symbols,
    Style.COMPACT: _compact,
    Style.TEXTARENA: textarena_texts.board,
    Style.LETTERS: _letters,
    Style.SPELLED: _spelled,
}
"""Format a guess and its marks; the exact texts of TextArena have functions of their own."""


@dataclass(frozen=True)
class Prompter:
    """Turn a game into messages and replies into guesses, for one style, shape and set of rules.

    Attributes:
        style: A built-in style, or the import path of a class with the methods of `StyleTexts`.
        shape: Content of a turn's prompt.
        thinking: Whether replies can or must think. The spelled style has no thinking.
        word_length: Letters per word.
        rules: Rules of the game.
        system_prompt: Replaces the style's own rules; placeholders are filled in. Empty: no system message.
        lenient: Read replies outside the grammar with `parse_leniently`.

    Raises:
        ValueError: If shape or thinking is unknown, or the style cannot have required thinking.
        PromptError: If the style is unknown, or the system prompt has an unknown placeholder or a single brace.
    """

    style: Style | str = Style.ENGLISH
    shape: Shape = Shape.TRANSCRIPT
    thinking: Thinking = Thinking.OPTIONAL
    word_length: int = 5
    rules: Rules = field(default_factory=Rules)
    system_prompt: str | None = None
    lenient: bool = False

    def __post_init__(self) -> None:
        # A plain string equals an enum member but is not identical to it, so style "compact" would only half work.
        object.__setattr__(self, "style", style_named(self.style))
        object.__setattr__(self, "shape", Shape(self.shape))
        object.__setattr__(self, "thinking", Thinking(self.thinking))
        if self.style is Style.SPELLED:
            if self.thinking is Thinking.REQUIRED:
                raise ValueError('style "spelled" has no form for thinking: set thinking to "off"')
            object.__setattr__(self, "thinking", Thinking.OFF)
        if self.system_prompt is not None:
            if fault := fault_in(self.system_prompt):
                raise PromptError(f"system_prompt: {fault}")
            object.__setattr__(self, "system_prompt", tidied(self.system_prompt))

    def parse(self, reply: str) -> Guess | ParseFailure:
        """Parse a reply by the grammar of the style."""
        if self.style is Style.SPELLED:
            return parse_spelled(reply, self.word_length)
        parsed = parse_reply(reply, self.thinking, brackets=self.brackets)
        if self.lenient and isinstance(parsed, ParseFailure):
            return parse_leniently(reply, brackets=self.brackets)
        return parsed

    @cached_property
    def _texts(self) -> StyleTexts:
        if self.style in (Style.NOTEBOOK, Style.NOTEBOOK_PLAYER0):
            return NotebookStyle(player0=self.style is Style.NOTEBOOK_PLAYER0)
        return _BuiltIn() if isinstance(self.style, Style) else find_style(self.style)

    @cached_property
    def brackets(self) -> bool:
        """True if guesses are in square brackets."""
        return self._texts.brackets(self)

    @cached_property
    def guess_tags(self) -> tuple[str, str]:
        """Opening and closing tag of a guess; both empty in the spelled style."""
        if self.style is Style.SPELLED:
            return ("", "")
        return ("[", "]") if self.brackets else ("<guess>", "</guess>")

    def reply(self, word: str, thinking: str = "") -> str:
        """Write a well-formed reply, as teachers do."""
        if self.style is Style.SPELLED:
            return " ".join(word)
        guess = word.join(self.guess_tags)
        if self.thinking is Thinking.OFF or (not thinking and self.thinking is Thinking.OPTIONAL):
            return guess
        separator = "" if self.style is Style.COMPACT else "\n"
        return f"<think>{thinking}</think>{separator}{guess}"

    @cached_property
    def example(self) -> str:
        """A well-formed reply as an example for the rules."""
        word = _EXAMPLE[self.word_length]
        required = self.thinking is Thinking.REQUIRED
        return self.reply(word, "…").replace("\n", "") if required else self.reply(word)

    def opening(self, given: Sequence[Turn] = ()) -> list[Message]:
        """Return the first prompt of a game with the prefix guesses `given`.

        In transcript shape they are turns of the conversation; in state shape they are restated.
        """
        if self.shape is Shape.STATE:
            return self.state(given)
        messages = [*self._system(), Message(role="user", content=self._start)]
        for count, turn in enumerate(given, start=1):
            messages.append(Message(role="assistant", content=self.reply(turn.guess or "")))
            messages.append(self.feedback(given[:count]))
        return messages

    def feedback(self, turns: Sequence[Turn]) -> Message:
        """Return the feedback message after the last of `turns`, in transcript shape."""
        return {"role": "user", "content": self._checked("feedback", self._texts.feedback(self, turns))}

    def _feedback(self, turns: Sequence[Turn]) -> str:
        if self.style is Style.TEXTARENA_ORIGINAL:
            text = f"{textarena_texts.GAME_TAG} {self._answered(turns)}"
        elif self.style is Style.COMPACT:
            text = self._line(turns[-1])
        elif self.style is Style.SPELLED:
            text = self._line(turns[-1]).split("\n")[-1]  # without the guess, which the reply has just named
        elif self.style is Style.ENGLISH:
            known = knowledge_lines(turns, self.word_length)
            text = "\n".join([self._line(turns[-1]), *known, self._turns_left(turns)])
        else:
            text = f"{self._line(turns[-1])}\n{self._turns_left(turns)}"
        return text

    def state(self, turns: Sequence[Turn]) -> list[Message]:
        """Return a fresh prompt that restates the whole game."""
        text = self._checked("state", self._texts.state(self, turns)) if turns else self._start
        return [*self._system(), {"role": "user", "content": text}]

    def _state(self, turns: Sequence[Turn]) -> str:
        if self.style is Style.TEXTARENA_ORIGINAL:
            lines = [self._history(turns)]
        elif self.style in (Style.COMPACT, Style.SPELLED):
            lines = [self._start, *map(self._line, turns)]
        else:
            lines = ["Guesses so far:", *map(self._line, turns)]
            if self.style is Style.ENGLISH:
                lines += knowledge_lines(turns, self.word_length)
            lines.append(self._turns_left(turns))
        return "\n".join(lines)

    def _line(self, turn: Turn) -> str:
        if turn.marks is None or turn.guess is None:
            error = _ERRORS_OF.get(Style(self.style), _ERRORS)[turn.outcome]
            tells_how = turn.outcome is Outcome.MALFORMED and error in _ERRORS.values()
            return f"{error} Reply with {self.example}." if tells_how else error
        return self._scored_line(turn.guess, turn.marks)

    @cached_property
    def _scored_line(self) -> Callable[[str, str], str]:
        return _LINES[Style(self.style)]

    @cached_property
    def _start(self) -> str:
        return self._checked("opening", self._texts.opening(self))

    def _opening(self) -> str:
        if self.style is Style.COMPACT:
            return f"{self.word_length}x{self.rules.max_turns}"
        if self.style is Style.SPELLED:
            return "Start"
        if self.style is Style.TEXTARENA_ORIGINAL:
            return textarena_texts.opening(self.word_length, self.rules.max_turns).strip()
        return f"A new game: {self.word_length} letters, {self.rules.max_turns} guesses. Your first guess?"

    def _answered(self, turns: Sequence[Turn]) -> str:
        last = turns[-1]
        repeated = last.guess in [turn.guess for turn in turns[:-1] if turn.marks is not None]
        return textarena_texts.answered(last, self.turns_left(turns), repeated=repeated, letters=self.word_length)

    def _history(self, turns: Sequence[Turn]) -> str:
        # A reply without a guess is not in TextArena's history; only the feedback on it is.
        tag = textarena_texts.GAME_TAG
        lines = [self._start]
        for count, turn in enumerate(turns, start=1):
            lines += [f"{tag} {turn.guess.join(self.guess_tags)}"] if turn.guess is not None else []
            lines.append(f"{tag} {self._answered(turns[:count])}")
        return "\n".join(lines)

    def turns_left(self, turns: Sequence[Turn]) -> int:
        """Return the number of guesses left after `turns`."""
        return self.rules.max_turns - sum([turn.costs_turn for turn in turns])

    def _turns_left(self, turns: Sequence[Turn]) -> str:
        left = self.turns_left(turns)
        return f"{left} {'guess' if left == 1 else 'guesses'} left."

    def _system(self) -> list[Message]:
        return [{"role": "system", "content": self._rules}] if self._rules else []

    @cached_property
    def _rules(self) -> str:
        return self._checked("rules", system_prompt(self))

    def _checked(self, method: str, text: object) -> str:
        if not isinstance(text, str):
            raise PromptError(f"style {str(self.style)!r}: {method} returned {type(text).__name__}; return a str")
        return text


_EXAMPLE = {len(word): word for word in EXAMPLE_WORDS}
"""Example word by length."""


@lru_cache(maxsize=64)
def system_prompt(prompter: Prompter) -> str:
    """Return the system message, or '' for none: the prompter's `system_prompt`, or the rules of its style.

    The compact style has no rules and the spelled one only the name of the game. TextArena's exact texts have them in
    the first user message.
    """
    if prompter.system_prompt is not None:
        rules = prompter.rules
        facts = {"word_length": prompter.word_length, "max_turns": rules.max_turns, "example": prompter.example}
        return filled(prompter.system_prompt, facts)
    return prompter._texts.rules(prompter)


def _built_in_rules(prompter: Prompter) -> str:
    if prompter.style in (Style.COMPACT, Style.TEXTARENA_ORIGINAL):
        return ""
    if prompter.style is Style.SPELLED:
        return "Wordle"  # without a system message, some templates add a longer one
    legend = {
        Style.ENGLISH: "you are told, letter by letter, whether it is in its place, elsewhere in the word, or has no "
        "(further) copy in it",
        Style.SYMBOLS: "each letter gets a square: 🟩 in its place, 🟨 elsewhere in the word, "
        "⬛ no (further) copy in it",
        Style.TEXTARENA: "each letter gets a mark: G in its place, Y elsewhere in the word, X no (further) copy in it",
        Style.LETTERS: "each letter gets a symbol: ✓ in its place, - elsewhere in the word, x no (further) copy in it",
    }[Style(prompter.style)]
    example = prompter.example
    form = {
        Thinking.OFF: f"Reply with nothing but {example}.",
        Thinking.OPTIONAL: f"Reply with {example}; you may reason first inside <think>…</think>.",
        Thinking.REQUIRED: f"Reason first, briefly, then guess: {example}",
    }[prompter.thinking]
    dictionary = {
        Dictionary.STRICT: "Guesses must be listed words; any other reply wastes the turn.",
        Dictionary.LENIENT: f"Any {prompter.word_length} letters may be guessed; any other reply wastes the turn.",
        Dictionary.APP: "Guesses must be listed words; any other reply is refused.",
    }[prompter.rules.dictionary]
    hard = " Every hint revealed must be used in later guesses." if prompter.rules.hard_mode else ""
    return (
        f"Find the secret {prompter.word_length}-letter word in at most {prompter.rules.max_turns} guesses. "
        f"After each guess {legend}. {dictionary}{hard}\n{form} Write exactly one guess and nothing after it."
    )


class _BuiltIn:
    def brackets(self, prompter: Prompter) -> bool:
        return prompter.style in (Style.TEXTARENA, Style.TEXTARENA_ORIGINAL)

    def rules(self, prompter: Prompter) -> str:
        return _built_in_rules(prompter)

    def opening(self, prompter: Prompter) -> str:
        return prompter._opening()

    def feedback(self, prompter: Prompter, turns: Sequence[Turn]) -> str:
        return prompter._feedback(turns)

    def state(self, prompter: Prompter, turns: Sequence[Turn]) -> str:
        return prompter._state(turns)
