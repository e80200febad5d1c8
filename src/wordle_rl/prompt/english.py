"""The styles in sentences, `english`, `symbols`, `letters` and `textarena`: the same rules and errors, other marks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import add
from string import ascii_lowercase
from typing import TYPE_CHECKING

from wordle_rl.game import Dictionary, Outcome, Turn
from wordle_rl.prompt.knowledge import knowledge_lines
from wordle_rl.prompt.reply import Thinking
from wordle_rl.prompt.textarena_texts import board

if TYPE_CHECKING:
    from wordle_rl.prompt.prompter import Prompter

HARD_MODE_RULE = "Every hint revealed must be used in later guesses."
ERRORS = {
    Outcome.MALFORMED: "That reply held no readable guess.",
    Outcome.WRONG_LENGTH: "That guess has the wrong number of letters.",
    Outcome.UNLISTED: "That guess is not in the word list.",
    Outcome.HARD_MODE: "Hard mode: that guess leaves out a revealed hint.",
}


@dataclass(frozen=True)
class SentenceStyle:
    """`StyleTexts` in sentences.

    Attributes:
        legend: What the rules say about marks.
        line: Formats a guess and its marks.
        tells_knowledge: Also say what the marks so far prove.
        has_brackets: Guesses are written `[crane]`.
    """

    legend: str
    line: Callable[[str, str], str]
    tells_knowledge: bool = False
    has_brackets: bool = False

    def brackets(self, prompter: Prompter) -> bool:  # noqa: ARG002
        """See `StyleTexts`."""
        return self.has_brackets

    def rules(self, prompter: Prompter) -> str:
        """See `StyleTexts`."""
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
        hard = f" {HARD_MODE_RULE}" if prompter.rules.hard_mode else ""
        return (
            f"Find the secret {prompter.word_length}-letter word in at most {prompter.rules.max_turns} guesses. "
            f"After each guess {self.legend}. {dictionary}{hard}\n{form} Write exactly one guess and nothing after it."
        )

    def opening(self, prompter: Prompter) -> str:
        """See `StyleTexts`."""
        return f"A new game: {prompter.word_length} letters, {prompter.rules.max_turns} guesses. Your first guess?"

    def feedback(self, prompter: Prompter, turns: Sequence[Turn]) -> str:
        """See `StyleTexts`."""
        return "\n".join([self._told(prompter, turns[-1]), *self._known(prompter, turns), _left(prompter, turns)])

    def state(self, prompter: Prompter, turns: Sequence[Turn]) -> str:
        """See `StyleTexts`."""
        played = [self._told(prompter, turn) for turn in turns]
        return "\n".join(["Guesses so far:", *played, *self._known(prompter, turns), _left(prompter, turns)])

    def _told(self, prompter: Prompter, turn: Turn) -> str:
        if turn.marks is not None and turn.guess is not None:
            return self.line(turn.guess, turn.marks)
        error = ERRORS[turn.outcome]
        return f"{error} Reply with {prompter.example}." if turn.outcome is Outcome.MALFORMED else error

    def _known(self, prompter: Prompter, turns: Sequence[Turn]) -> Sequence[str]:
        return knowledge_lines(turns, prompter.word_length) if self.tells_knowledge else ()


def _left(prompter: Prompter, turns: Sequence[Turn]) -> str:
    left = prompter.turns_left(turns)
    return f"{left} {'guess' if left == 1 else 'guesses'} left."


_MEANINGS = {
    letter + mark: f"{letter}: {meaning}"
    for letter in ascii_lowercase
    for mark, meaning in {"G": "in its place", "Y": "elsewhere in the word", "X": "no (further) copy"}.items()
}


def _line(guess: str, marks: str) -> str:
    return f"{guess}: {', '.join([_MEANINGS[pair] for pair in map(add, guess, marks)])}."


ENGLISH = SentenceStyle(
    legend="you are told, letter by letter, whether it is in its place, elsewhere in the word, or has no (further) "
    "copy in it",
    line=_line,
    tells_knowledge=True,
)

_SQUARES = str.maketrans({"G": "🟩", "Y": "🟨", "X": "⬛"})

SYMBOLS = SentenceStyle(
    legend="each letter gets a square: 🟩 in its place, 🟨 elsewhere in the word, ⬛ no (further) copy in it",
    line=lambda guess, marks: f"{guess} {marks.translate(_SQUARES)}",
)

_SIGNED = {
    letter + mark: f"{letter.upper()}({sign})"
    for letter in ascii_lowercase
    for mark, sign in {"G": "✓", "Y": "-", "X": "x"}.items()
}

LETTERS = SentenceStyle(
    legend="each letter gets a mark: ✓ in its place, - elsewhere in the word, x no (further) copy in it",
    line=lambda guess, marks: f"{guess.upper()} -> {''.join([_SIGNED[pair] for pair in map(add, guess, marks)])}",
)

TEXTARENA = SentenceStyle(
    legend="each letter gets a mark: G in its place, Y elsewhere in the word, X no (further) copy in it",
    line=board,
    has_brackets=True,
)
