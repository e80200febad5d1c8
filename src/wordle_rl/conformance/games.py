"""One played game, and the loop that plays it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from wordle_rl.conformance.dialects import Dialect, read_marks
from wordle_rl.conformance.target import Session, SessionLostError, Step
from wordle_rl.solver import Solver


@dataclass(frozen=True)
class Played:
    """One reply and its answer.

    Attributes:
        reply: Text sent.
        guess: The word in it, where the player meant one; None for what is no guess.
        step: The answer.
        marks: Marks read from the answer; None if it gives this guess none.
        beside: What was to be had beside the observation after it.
    """

    reply: str
    guess: str | None
    step: Step
    marks: str | None
    beside: str = ""


@dataclass(frozen=True)
class Board:
    """Knowledge of a player.

    Attributes:
        opening: The first observation.
        turns: Replies and answers so far.
        max_turns: Guesses of a game.
        solver: Of the word list that the target is taken to play with.
        dialect: How a guess is written.
        rng: Of this game alone.
    """

    opening: Step
    turns: tuple[Played, ...]
    max_turns: int
    solver: Solver
    dialect: Dialect
    rng: random.Random

    @property
    def scored(self) -> list[tuple[str, str]]:
        """Guesses with their marks."""
        return [(turn.guess, turn.marks) for turn in self.turns if turn.guess is not None and turn.marks is not None]

    @property
    def candidates(self) -> list[str]:
        """Answers of the word list that fit all marks, sorted."""
        answers = self.solver.words.answers
        return [answers[index] for index in self.solver.candidates(self.scored)]


@dataclass(frozen=True)
class Reply:
    """Words of a player: a guess, or any other text."""

    text: str
    guess: str | None = None


@dataclass(frozen=True)
class Player:
    """A way to play.

    Attributes:
        name: Name in reports.
        choose: Board to reply.
    """

    name: str
    choose: Callable[[Board], Reply]


@dataclass(frozen=True)
class Game:
    """The record of one game, from the first observation to the last.

    Attributes:
        seed: Seed it was opened with.
        player: Who played.
        opening: First observation.
        turns: Replies and answers.
        secret: The word that won it; None if it was not won.
        beside_opening: What was to be had beside the first observation.
        lost_session: Why the session broke off; '' if it did not.
    """

    seed: int
    player: str
    opening: Step
    turns: tuple[Played, ...]
    secret: str | None = None
    beside_opening: str = ""
    lost_session: str = field(default="")

    @property
    def won(self) -> bool:
        """True if the secret was guessed."""
        return self.secret is not None

    @property
    def done(self) -> bool:
        """True if the environment called it over."""
        return bool(self.turns) and self.turns[-1].step.done

    @property
    def total(self) -> float:
        """The game's reward: the sum over its steps."""
        return sum((turn.step.earned for turn in self.turns), 0.0)

    @property
    def honest(self) -> bool:
        """True if every reply was a guess that got marks, but for a last one whose marks are not sent."""
        return all(turn.guess is not None for turn in self.turns) and all(turn.marks for turn in self.turns[:-1])

    @property
    def visible(self) -> tuple[tuple[str, object, bool, bool], ...]:
        """All that a policy and its trainer see: text, reward, done, refused, from the opening on."""
        steps = (self.opening, *(turn.step for turn in self.turns))
        return tuple((step.text, step.reward, step.done, step.refused) for step in steps)


def play_game(
    session: Session, player: Player, board: Board, *, seed: int, max_replies: int, looks_beside: bool = False
) -> Game:
    """Play until the environment says it is over, or refuses, or `max_replies` are sent.

    Args:
        session: The session; stays open.
        player: Who plays.
        board: The board before the first reply, with what the player may know.
        seed: Seed to write down.
        max_replies: Replies after which a game counts as never ending.
        looks_beside: Also record what is to be had beside each observation.
    """
    turns: tuple[Played, ...] = ()
    beside = session.beside() if looks_beside else ""
    lost = ""
    while len(turns) < max_replies and not (turns and turns[-1].step.done):
        now = Board(board.opening, turns, board.max_turns, board.solver, board.dialect, board.rng)
        reply = player.choose(now)
        try:
            step = session.send(reply.text)
            aside = session.beside() if looks_beside else ""
        except SessionLostError as error:
            lost = str(error) or "no answer"
            break
        marks = None if reply.guess is None or step.refused else read_marks(step.text, reply.guess)
        turns = (*turns, Played(reply.text, reply.guess, step, marks, aside))
    game = Game(seed, player.name, board.opening, turns, None, beside, lost)
    secret = winning_word(game, board)
    return Game(seed, player.name, board.opening, turns, secret, beside, lost)


def winning_word(game: Game, board: Board) -> str | None:
    """The word that won a game, or None.

    A game is won if the last guess is all green. An environment that sends no marks with the last answer has won games
    too: those that end before their last turn, or on it with the only answer that fits.
    """
    if not game.done or game.turns[-1].guess is None or game.turns[-1].step.refused:
        return None
    last = game.turns[-1]
    if last.marks is not None:
        return last.guess if set(last.marks) == {"G"} else None
    before = Board(board.opening, game.turns[:-1], board.max_turns, board.solver, board.dialect, board.rng)
    fits = before.candidates
    early = len(game.turns) < board.max_turns and game.honest
    return last.guess if last.guess in fits and (early or len(fits) == 1) else None
