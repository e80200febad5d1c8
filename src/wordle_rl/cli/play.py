"""`play`: play one game in the terminal, or watch a player.

A person gets rules, board, a keyboard of what is known, and hints; `--daily` gives everybody the same word.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Annotated

import tyro
from rich.prompt import Prompt
from rich.table import Table
from rich.text import Text

from wordle_rl.boards import InitialState
from wordle_rl.cli import console
from wordle_rl.config.base import LARGEST_SEED, ConfigError
from wordle_rl.config.options import Json
from wordle_rl.config.teachers import TeacherSettings
from wordle_rl.evaluate.options import PlayerOptions
from wordle_rl.evaluate.play import record_of
from wordle_rl.evaluate.players import Player, make_player, notes_on, words_of
from wordle_rl.game import Dictionary, Game, Outcome, Rules, Turn, hard_mode_fault, scored_pairs
from wordle_rl.report import terminal
from wordle_rl.report.terminal import verbose_lines
from wordle_rl.reward import Rubric, named_schedule
from wordle_rl.rollout import play as play_games
from wordle_rl.solver import Solver
from wordle_rl.teachers.solver import SolverTeacher
from wordle_rl.words import WordList, load_words

HINT, GIVE_UP = "?", "!"
_SQUARES = str.maketrans("GYX", "🟩🟨⬛")


class PlayOptions(PlayerOptions):
    """Options of `play`."""

    player: Annotated[str, tyro.conf.arg(aliases=["--model"])] = "human"
    """human, or a player to watch: solver, consistent, random, bundled, openai:MODEL, a model or run directory, a hub
    model (USER/NAME), or your own player as module:attribute."""
    dictionary: Dictionary | None = None
    """Cost of an unlisted guess; `app` refuses any bad reply for free. Default: `app` for a human, a model's own, else
    strict."""
    secret: str | None = None
    """The word to find. Default: a random answer."""
    verbose: bool = False
    """Show every turn as the player saw it: prompt, completion, parsed guess, marks, feedback message, reward, and
    whether the game is over. Not for a human."""
    reward: str = "sparse"
    """Reward preset of --verbose."""
    daily: bool = False
    """Play the word of the day, the same for everybody with this list, and show squares to pass on."""
    seed: int | None = None
    """Seed of the secret and the player. Default: a new game every time."""
    as_json: Json = False


def play(asked: Annotated[PlayOptions, tyro.conf.arg(name="")]) -> None:
    """Play in the terminal yourself, or watch a player."""
    player, found = asked.player, load_words(words_of(asked.player, asked.words).source)
    if not asked.verbose and not asked.is_default("reward"):
        raise ConfigError("--reward is shown by --verbose; add that, or leave it out")
    if asked.daily and (asked.secret is not None or asked.seed is not None):
        raise ConfigError("--daily chooses the word; leave out --secret and --seed")
    today, seed = date.today(), random.randint(0, LARGEST_SEED) if asked.seed is None else asked.seed
    drawn = secret_of(today, found) if asked.daily else random.Random(seed).choice(found.answers)
    chosen = asked.secret.lower() if asked.secret is not None else drawn
    if chosen not in found:
        raise ConfigError(f"secret {chosen!r} is not in word list {found.name!r}; choose a listed word")
    if player == "human":
        if asked.verbose or asked.as_json or any(value is not None for value in asked.wording.values()):
            raise ConfigError("--verbose, --json and wording are for a player that you watch; name one with --player")
        # A person mistypes. As in the app, that costs nothing; a limit is needed, and 1000 is none for a person.
        rules = Rules(dictionary=asked.dictionary or Dictionary.APP, hard_mode=asked.hard_mode, max_refusals=1000)
        play_yourself(chosen, found, rules, f"wordle-rl {today}" if asked.daily else "")
        return
    spec, game = asked.spec(seed), asked.game()
    with console.messages.status(f"{player} gets ready…"):
        who = make_player(spec, found, Solver(found), game)
    for note in notes_on(player, who.prompter, asked=asked.style is not None):
        console.messages.print(note, soft_wrap=True)
    rubric = named_schedule(asked.reward).rubric() if asked.verbose else None
    _watch(who, chosen, found, rubric, asked)


def _watch(who: Player, secret: str, words: WordList, rubric: Rubric | None, asked: PlayOptions) -> None:
    with console.messages.status(f"{who.label} plays…"):
        trajectory = play_games([InitialState(secret)], words, who.prompter, who.sampler)[0]
    if trajectory.error is not None:
        raise ConfigError(f"{who.label} could not be asked: {trajectory.error}")
    if asked.as_json:
        record = record_of(trajectory, rubric, Solver(words) if rubric else None)
        console.print_json({"player": who.label, **record.to_row()})
        return
    if rubric is not None:
        earned = rubric.score(trajectory.transcript, Solver(words))
        for line in verbose_lines(trajectory.transcript, words, who.prompter, earned, asked.reward):
            console.out.print(line)
    else:
        for played in trajectory.transcript.turns:
            console.out.print(played.reply, style="dim")
    console.out.print(_board([played.turn for played in trajectory.transcript.turns], words, who.prompter.rules))
    console.out.print(f"{'found' if trajectory.transcript.won else 'not found'}: {secret.upper()}", style="bold")


def _board(turns: Sequence[Turn], words: WordList, rules: Rules) -> Table:
    num_free = sum(not turn.costs_turn for turn in turns)
    return terminal.board(turns, word_length=words.word_length, max_turns=rules.max_turns, num_free=num_free)


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
        console.out.print(f"\n{title} {game.turns_used if game.won else 'X'}/{rules.max_turns}")
        console.out.print(*(marks.translate(_SQUARES) for _, marks in scored_pairs(game.turns)), sep="\n")


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
    for guess, marks in scored_pairs(turns):
        for letter, mark in zip(guess, marks, strict=True):
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
