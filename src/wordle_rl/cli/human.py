"""A game for a person: rules, board, a keyboard of what is known, hints. `--daily` gives everybody the same word."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from datetime import date

from rich.prompt import Prompt
from rich.text import Text

from wordle_rl.cli import console
from wordle_rl.config.teachers import TeacherSettings
from wordle_rl.game import Dictionary, Game, Outcome, Rules, Turn, hard_mode_fault
from wordle_rl.report import terminal
from wordle_rl.solver import Solver
from wordle_rl.teachers.solver import SolverTeacher
from wordle_rl.words import WordList

HINT, GIVE_UP = "?", "!"
_SQUARES = str.maketrans("GYX", "🟩🟨⬛")


def secret_of(day: date, words: WordList) -> str:
    """Return the word of a day, the same for everybody who has this list."""
    digest = hashlib.sha256(f"{day.isoformat()} {words.name}".encode()).digest()
    return words.answers[int.from_bytes(digest[:8], "big") % len(words.answers)]


def play_yourself(secret: str, words: WordList, rules: Rules, title: str = "") -> None:
    """Ask a person for guesses until the game is over; with a `title` it ends in squares that can be passed on."""
    game, given_up = Game(secret, words, rules), False
    for line in rules_in_lines(rules, words.word_length):
        console.out.print(line)
    while not (game.over or given_up):
        word = _asked(game.turns_used + 1)
        given_up = word == GIVE_UP
        if word == HINT:
            console.out.print(hint(game.turns, words, rules))
        elif word and not given_up:
            turn = game.play(word if word.isascii() and word.isalpha() else None)
            console.out.print(*_answer(game, turn, words.word_length), sep="\n")
    console.out.print(f"{'well done' if game.won else 'the word was'}: {secret.upper()}", style="bold")
    if title:
        scored = _scored(game.turns)
        console.out.print(f"\n{title} {game.turns_used if game.won else 'X'}/{rules.max_turns}")
        console.out.print(*((turn.marks or "").translate(_SQUARES) for turn in scored), sep="\n")


def rules_in_lines(rules: Rules, word_length: int) -> Iterator[str]:
    """Explain the game in three lines."""
    free = "; unlisted words cost nothing" if rules.dictionary is Dictionary.APP else ""
    hard = " Use every hint." if rules.hard_mode else ""
    yield f"Find the word of {word_length} letters in {rules.max_turns} guesses{free}.{hard}"
    yield "G green: in its place. Y yellow: elsewhere in the word. X grey: no more of it."
    yield f"{HINT} gives a hint, {GIVE_UP} gives up. Keys: CAPITALS are in the word, dots are ruled out."


def keyboard(turns: Sequence[Turn]) -> Text:
    """Draw the keys, each with the best mark that its letter has had."""
    best: dict[str, str] = {}
    for turn in _scored(turns):
        for letter, mark in zip(turn.guess or "", turn.marks or "", strict=True):
            best[letter] = min(mark, best.get(letter, mark), key="GYX".index)
    keys = Text()
    for indent, row in enumerate(("qwertyuiop", "asdfghjkl", "zxcvbnm")):
        keys.append("\n" if indent else "").append(" " * (2 + 2 * indent))
        for letter in row:
            mark = best.get(letter, "")
            shown = {"": letter, "X": "·"}.get(mark, letter.upper())
            keys.append(f" {shown} ", "dim" if mark == "X" else terminal.TILE_STYLES.get(mark, ""))
    return keys


def hint(turns: Sequence[Turn], words: WordList, rules: Rules) -> str:
    """Say how many answers fit the marks and what the solver would play."""
    advice = SolverTeacher(Solver(words)).advise(turns, TeacherSettings(), rules.max_turns)
    if advice is None:
        return "No answer of the list fits these marks."
    left = "One answer fits" if advice.remaining == 1 else f"{advice.remaining:,} answers fit"
    return f"{left}; the solver would play {advice.guess.upper()}."


def _asked(number: int) -> str:
    try:
        return Prompt.ask(f"guess {number}", console=console.out).strip().lower()
    # Ctrl-D, or the end of a piped file, ends the game as Ctrl-C does.
    except EOFError:
        raise KeyboardInterrupt from None


def _answer(game: Game, turn: Turn, word_length: int) -> Iterator[object]:
    if not turn.costs_turn:
        missed = hard_mode_fault(turn.guess, game.turns) if turn.outcome is Outcome.HARD_MODE and turn.guess else None
        yield f"{missed or terminal.NOTES[turn.outcome]}; that costs nothing"
        return
    shown = [each for each in game.turns if each.costs_turn]
    yield terminal.board(shown, word_length=word_length, max_turns=game.rules.max_turns)
    if not game.over:
        yield keyboard(game.turns)


def _scored(turns: Sequence[Turn]) -> list[Turn]:
    return [turn for turn in turns if turn.outcome is Outcome.SCORED]
