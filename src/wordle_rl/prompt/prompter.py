"""Every message of a game to a model, in one style and one shape: built-in styles, your own, your own system prompt."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from string import Formatter
from typing import Protocol

from typing_extensions import TypedDict  # pydantic reads no other before Python 3.12

from wordle_rl.errors import UserError
from wordle_rl.game import Rules, Turn, turns_used
from wordle_rl.import_paths import check_call, is_import_path, resolve
from wordle_rl.prompt.coded import COMPACT, COMPACT_FORM, SPELLED, SpelledForm
from wordle_rl.prompt.english import ENGLISH, LETTERS, SYMBOLS, TEXTARENA
from wordle_rl.prompt.reply import (
    BRACKETS,
    TAGGED_BRACKETS,
    TAGS,
    Guess,
    ParseFailure,
    ReplyForm,
    TaggedForm,
    Thinking,
    lenient_guess,
    without_thinking,
)
from wordle_rl.prompt.trl_notebook import NotebookStyle
from wordle_rl.prompt.verifiers_style import VerifiersStyle
from wordle_rl.words import EXAMPLE_WORDS


class Message(TypedDict):
    """One chat message."""

    role: str
    content: str


class PromptError(UserError):
    """A prompt that cannot be built; the message names the setting and the fix."""


class Style(StrEnum):
    """Wording of a game."""

    ENGLISH = "english"
    """The whole state in plain sentences; small pretrained models follow this best."""
    SYMBOLS = "symbols"
    """Each guess with coloured squares."""
    LETTERS = "letters"
    """Each letter of a guess with its mark in brackets: `MAXIM -> M(x)A(✓)X(x)I(-)M(x)`."""
    COMPACT = "compact"
    """Each letter followed by its mark and nothing else; one token per letter for the embedded model."""
    TEXTARENA = "textarena"
    """Guesses in brackets and spaced G/Y/X lines, with our own wording of the rules."""
    NOTEBOOK = "notebook"
    """User message of TRL and OpenEnv's notebook, `Game prompt: … Conversation so far: …`; shape
    `state` sends one in every turn, as the notebook does."""
    NOTEBOOK_PLAYER0 = "notebook_player0"
    """The same in the texts of the first notebook, `You are Player 0 in Wordle.`, which its published model read."""
    VERIFIERS = "verifiers"
    """`<guess>[crane]</guess>` and TextArena's answers, as the Wordle of verifiers and prime-rl words a game; for their
    data and the models trained by them."""
    SPELLED = "spelled"
    """Replies `c r a n e`, feedback `X Y X X G`, hardly anything else: one token per letter for models whose tokens are
    pieces of words. No thinking."""


def style_named(name: str) -> Style | str:
    """Return the built-in style of this name, or the import path of your own, which is not imported yet."""
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
    SPOKEN = "spoken"
    """A conversation without the thinking of earlier turns. Each turn is trained on after the prompt that it had."""


_EXAMPLE = {len(word): word for word in EXAMPLE_WORDS}
"""Example word by length."""


@dataclass(frozen=True)
class Prompter:
    """Turn a game into messages and replies into guesses, for one style, shape and set of rules.

    `style` may be the import path of a class with the methods of `StyleTexts`. `system_prompt` replaces the style's own
    rules, with its placeholders filled in; empty: no system message. `lenient` also reads replies outside the grammar.
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
        form = _FORMS.get(self.style)
        if form is not None and not form.has_thinking:
            if self.thinking is Thinking.REQUIRED:
                raise PromptError(f'style "{self.style}" has no form for thinking: set thinking to "off"')
            object.__setattr__(self, "thinking", Thinking.OFF)
        if self.system_prompt is not None:
            if fault := fault_in(self.system_prompt):
                raise PromptError(f"system_prompt: {fault}")
            object.__setattr__(self, "system_prompt", tidied(self.system_prompt))

    def parse(self, reply: str) -> Guess | ParseFailure:
        """Parse a reply by the grammar of the style."""
        parsed = self.form.parse(reply, self.thinking, self.word_length)
        if self.lenient and isinstance(parsed, ParseFailure):
            return lenient_guess(reply, self.word_length) or parsed
        return parsed

    @cached_property
    def _texts(self) -> StyleTexts:
        return _TEXTS[self.style] if isinstance(self.style, Style) else find_style(self.style)

    @cached_property
    def form(self) -> ReplyForm:
        """How replies are written and read."""
        return _FORMS.get(self.style) or TaggedForm(BRACKETS if self.brackets else TAGS)

    @cached_property
    def brackets(self) -> bool:
        """True if guesses are in square brackets."""
        return self._texts.brackets(self)

    @property
    def kept_thinking(self) -> Thinking:
        """The thinking of earlier replies in later prompts: `off` unless the shape keeps it."""
        return self.thinking if self.shape is Shape.TRANSCRIPT else Thinking.OFF

    @cached_property
    def guess_tags(self) -> tuple[str, str]:
        """Opening and closing tag of a guess; both empty in the spelled style."""
        return self.form.guess_tags

    def reply(self, word: str, thinking: str = "") -> str:
        """Write a well-formed reply, as teachers do."""
        return self.form.write(word, thinking, self.thinking)

    @cached_property
    def example(self) -> str:
        """A well-formed reply as an example for the rules."""
        word = _EXAMPLE[self.word_length]
        required = self.thinking is Thinking.REQUIRED
        return self.reply(word, "…").replace("\n", "") if required else self.reply(word)

    def opening(self, given: Sequence[Turn] = ()) -> list[Message]:
        """Return the first prompt of a game with the prefix guesses `given`.

        In state shape they are restated; in the others they are turns of the conversation.
        """
        if self.shape is Shape.STATE:
            return self.state(given)
        messages = [*self._system(), Message(role="user", content=self._start)]
        for count, turn in enumerate(given, start=1):
            messages.append(self.remembered(self.reply(turn.guess or "")))
            messages.append(self.feedback(given[:count]))
        return messages

    def remembered(self, reply: str) -> Message:
        """Return a reply as later prompts of a conversation hold it."""
        return {"role": "assistant", "content": without_thinking(reply) if self.shape is Shape.SPOKEN else reply}

    def feedback(self, turns: Sequence[Turn]) -> Message:
        """Return the feedback message after the last of `turns`, in a conversation."""
        # Templates differ in whether they trim a message, so that it has nothing to trim.
        return {"role": "user", "content": self._checked("feedback", self._texts.feedback(self, turns)).strip()}

    def state(self, turns: Sequence[Turn]) -> list[Message]:
        """Return a fresh prompt that restates the whole game."""
        text = self._checked("state", self._texts.state(self, turns)) if turns else self._start
        return [*self._system(), {"role": "user", "content": text}]

    @cached_property
    def _start(self) -> str:
        return self._checked("opening", self._texts.opening(self))

    def turns_left(self, turns: Sequence[Turn]) -> int:
        """Return the number of guesses left after `turns`."""
        return self.rules.max_turns - turns_used(turns)

    def _system(self) -> list[Message]:
        return [{"role": "system", "content": self.system_text}] if self.system_text else []

    @cached_property
    def system_text(self) -> str:
        """The system message, or '' for none: `system_prompt`, or the rules of the style."""
        if self.system_prompt is None:
            return self._checked("rules", self._texts.rules(self))
        facts = {"word_length": self.word_length, "max_turns": self.rules.max_turns, "example": self.example}
        return self.system_prompt.format(**facts)

    def _checked(self, method: str, text: object) -> str:
        if not isinstance(text, str):
            raise PromptError(f"style {str(self.style)!r}: {method} returned {type(text).__name__}; return a str")
        return text


# --- the texts of styles, those of your own by import path --------------------------------------------------------


class StyleTexts(Protocol):
    """Texts of a style, as pure functions of the board.

    Each method gets the `Prompter` of the game with its `word_length`, `rules`, and `reply(word)`, which writes a
    well-formed reply. `turns` are all turns so far, including refused ones, which have an `outcome` but no `marks`.
    """

    def brackets(self, prompter: Prompter) -> bool:
        """True if a guess is written `[crane]` instead of `<guess>crane</guess>`."""

    def rules(self, prompter: Prompter) -> str:
        """Return the system prompt, or '' for none; `game.system_prompt` replaces it."""

    def opening(self, prompter: Prompter) -> str:
        """Return the first user message."""

    def feedback(self, prompter: Prompter, turns: Sequence[Turn]) -> str:
        """Return the user message after the last of `turns`, in a conversation."""

    def state(self, prompter: Prompter, turns: Sequence[Turn]) -> str:
        """Return the user message that restates the game after one or more `turns`, in `state` shape."""


_TEXTS: dict[Style, StyleTexts] = {
    Style.ENGLISH: ENGLISH,
    Style.SYMBOLS: SYMBOLS,
    Style.LETTERS: LETTERS,
    Style.COMPACT: COMPACT,
    Style.TEXTARENA: TEXTARENA,
    Style.NOTEBOOK: NotebookStyle(player0=False),
    Style.NOTEBOOK_PLAYER0: NotebookStyle(player0=True),
    Style.VERIFIERS: VerifiersStyle(),
    Style.SPELLED: SPELLED,
}
_FORMS: dict[str, ReplyForm] = {
    Style.COMPACT: COMPACT_FORM,
    Style.VERIFIERS: TaggedForm(TAGGED_BRACKETS, separator="\n\n"),
    Style.SPELLED: SpelledForm(),
}
"""Replies of styles that are not simply a guess in tags or brackets."""


def find_style(path: str) -> StyleTexts:
    """Import the class of a style by `module:attribute` and create it."""
    found = resolve(path, "style", PromptError)
    methods = [name for name in vars(StyleTexts) if not name.startswith("_")]
    missing = [name for name in methods if not callable(getattr(found, name, None))]
    if not isinstance(found, type) or missing:
        lacks = f"lacks {', '.join(missing)}" if missing else "is not a class"
        raise PromptError(f"style {path!r} {lacks}; give a class with the methods of wordle_rl.prompt.StyleTexts")
    check_call(found, f"style {path!r}", PromptError, takes="")
    texts: StyleTexts = found()
    return texts


# --- a system prompt of your own --------------------------------------------------------------------------------

PLACEHOLDERS = ("word_length", "max_turns", "example")
"""Placeholders that a text can have in braces: facts of the game, and an example reply."""
_SHOWN = 40


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
