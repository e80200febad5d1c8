"""Players for the checks, their games, and the examiner, which plays each game once."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean
from typing import NamedTuple

import numpy as np

from conformance.targets import Dialect, Session, SessionLostError, Step, Target, read_marks
from wordle_rl.game import score_guess
from wordle_rl.solver import Solver

PAIRS = 10  # games to play a second time
MAX_TURNS = 6  # guesses of a game


class Reply(NamedTuple):
    """A player's reply: a guess, or any other text."""

    text: str
    guess: str | None = None


class Turn(NamedTuple):
    """One reply and its answer. `beside` holds what the target shows besides observations, such as its state."""

    reply: Reply
    step: Step
    marks: str | None
    beside: str


@dataclass(frozen=True)
class Game:
    """A game in progress or over, as its player sees it."""

    examiner: Examiner = field(repr=False)
    seed: int
    player: str
    opening: Step
    rng: random.Random
    turns: tuple[Turn, ...] = ()
    secret: str | None = None  # the word that won it
    beside_opening: str = ""
    lost_session: str = ""  # why the session broke off

    def __str__(self) -> str:
        return f"seed {self.seed}, {self.player}"

    @property
    def done(self) -> bool:
        """True if the environment said that the game is over."""
        return bool(self.turns) and self.turns[-1].step.done

    @property
    def total(self) -> float:
        """Sum of the rewards of all steps."""
        return sum((turn.step.earned for turn in self.turns), 0.0)

    @property
    def honest(self) -> bool:
        """True if every reply was a marked guess. The last guess may lack marks, since some environments omit them."""
        return all(turn.reply.guess for turn in self.turns) and all(turn.marks for turn in self.turns[:-1])

    @property
    def scored(self) -> list[tuple[str, str]]:
        """Guesses with their marks."""
        return [(turn.reply.guess, turn.marks) for turn in self.turns if turn.reply.guess and turn.marks]

    @property
    def said(self) -> frozenset[str | None]:
        """Words guessed so far."""
        return frozenset(turn.reply.guess for turn in self.turns)

    @property
    def candidates(self) -> list[str]:
        """Answers that fit all marks, sorted."""
        solver = self.examiner.solver
        return [solver.words.answers[index] for index in solver.candidates(self.scored)]

    @property
    def visible(self) -> list[tuple[str, object, bool, bool]]:
        """Everything a policy and its trainer see: text, reward, done, refused, from the opening on."""
        return [(s.text, s.reward, s.done, s.refused) for s in (self.opening, *(turn.step for turn in self.turns))]

    def guess(self, word: str) -> Reply:
        """Make the reply that guesses a word."""
        return Reply(self.examiner.dialect.write(word), word)

    def any_of(self, words: Sequence[str] = ()) -> Reply:
        """Guess a random word of `words`, or of the whole list if it is empty."""
        return self.guess(self.rng.choice(words or self.examiner.solver.words.guesses))

    def winning_word(self) -> str | None:
        """Return the word that won, or None."""
        if not self.done or self.turns[-1].step.refused:
            return None
        last, fits = self.turns[-1], replace(self, turns=self.turns[:-1]).candidates
        guess = last.reply.guess
        # Without marks for the last guess, a game is won if it ended early, or on the only answer that fits.
        early = len(self.turns) < MAX_TURNS and self.honest
        won = set(last.marks) == {"G"} if last.marks else guess in fits and (early or len(fits) == 1)
        return guess if won else None


class Player(NamedTuple):
    """A way to play, with its name in reports."""

    name: str
    choose: Callable[[Game], Reply]


@dataclass
class Examiner:
    """A target, and the games played on it so far."""

    target: Target
    solver: Solver  # for the word list that the target should use
    dialect: Dialect
    num_games: int = 30  # games per player in checks that compare rewards
    seed: int = 0  # of the players; games are opened with `seed`, `seed + 1` and so on
    _games: dict[tuple[str, int], Game] = field(default_factory=dict)

    @property
    def seeds(self) -> range:
        """Seeds of the games."""
        return range(self.seed, self.seed + self.num_games)

    def games(self, *players: Player, count: int | None = None) -> list[Game]:
        """Return games of players over the seeds (or the first `count`). Each is played once and kept."""
        wanted = [(player, seed) for player in players for seed in self.seeds[:count]]
        for player, seed in wanted:
            if (player.name, seed) not in self._games:
                self._games[player.name, seed] = self.play(player, seed)
        return [self._games[player.name, seed] for player, seed in wanted]

    @cached_property
    def unseeded(self) -> list[Game]:
        """Games that differed when their seed was opened again."""
        return [game for game in self.games(SOLVER, count=PAIRS) if game.scored != self.play(SOLVER, game.seed).scored]

    def play(self, player: Player, seed: int, max_replies: int | None = None) -> Game:
        """Play one game in its own session."""
        with self.session(seed) as session:
            return self.play_in(session, player, seed, max_replies)

    def replay(self, game: Game, turns: int | None = None) -> Game:
        """Send the replies of a recorded game again, whatever the answers."""
        said = [turn.reply for turn in game.turns[:turns]]
        return self.play(Player(game.player, lambda now: said[len(now.turns)]), game.seed, len(said))

    def mean(self, player: Player) -> float:
        """Mean reward of a player's games."""
        return fmean(game.total for game in self.games(player))

    def session(self, seed: int) -> closing[Session]:
        """Open a session for a `with` block, which closes it."""
        return closing(self.target.open(seed))

    def play_in(self, session: Session, player: Player, seed: int, max_replies: int | None = None) -> Game:
        """Play until the game is over, the session breaks off, or `max_replies` were sent. The session stays open."""
        limit = MAX_TURNS + 10 if max_replies is None else max_replies  # allow ten free refusals
        rng = random.Random(f"{self.seed}:{player.name}:{seed}")
        game = Game(self, seed, player.name, session.opening, rng, beside_opening=session.beside())
        while len(game.turns) < limit and not game.done:
            reply = player.choose(game)
            try:
                step, beside = session.send(reply.text), session.beside()
            except SessionLostError as error:
                game = replace(game, lost_session=str(error) or "no answer")
                break
            marks = None if reply.guess is None or step.refused else read_marks(step.text, reply.guess)
            game = replace(game, turns=(*game.turns, Turn(reply, step, marks, beside)))
        return replace(game, secret=game.winning_word())


def _solve(game: Game) -> Reply:
    # Once no answer fits the marks there is nothing left to solve, so guess anything.
    solver = game.examiner.solver
    if not game.scored:
        return game.guess(solver.best_openers(1)[0].guess)
    fits = solver.candidates(game.scored)
    return game.guess(solver.best_guess(fits)) if len(fits) else game.any_of()


def _lose(game: Game) -> Reply:
    # A new listed word that cannot be the secret. On an empty board that is a word outside the answers.
    ruled_out = {*game.candidates, *game.said}
    return game.any_of([word for word in game.examiner.solver.words.guesses if word not in ruled_out])


def _find_out(game: Game) -> Reply:
    """Find the secret without guessing it, try words with repeated letters on it, and guess it on the last turn."""
    solver, words = game.examiner.solver, game.examiner.solver.words
    # Trust only marks of words without repeated letters; marks of repeated letters are what these games test.
    probed = [(guess, marks) for guess, marks in game.scored if len(set(guess)) == len(guess)]
    known = solver.candidates(probed)
    if len(known) == 0:
        return game.any_of()
    secret = words.answers[known[0]]
    if len(game.turns) >= MAX_TURNS - 1:
        return game.guess(secret)
    if len(known) == 1:
        others = [word for word in words.guesses if word != secret and word not in game.said]
        telling = [word for word in others if naive_marks(secret, word) != score_guess(secret, word)]
        return game.any_of(telling or others)
    # The most informative guess that cannot be the secret. Before the first marks, any answer could be.
    fits = {words.answers[index] for index in known}
    if probed:
        ranked = [words.guesses[index] for index in np.argsort(-solver.information(known), kind="stable")]
    else:
        ranked = [opener.guess for opener in solver.best_openers(len(words.guesses))]
    probes = (word for word in ranked if word not in fits | game.said and len(set(word)) == len(word))
    return game.guess(next(probes, ranked[0]))


def naive_marks(secret: str, guess: str) -> str:
    """Mark a guess like a common faulty scorer, which gives yellow to every letter that occurs."""
    return "".join("G" if s == g else "Y" if g in secret else "X" for s, g in zip(secret, guess, strict=True))


PROSE = Reply("I do not know which word it could be.")
SOLVER = Player("solver", _solve)
CONSISTENT = Player("consistent", lambda game: game.any_of(game.candidates))
RANDOM_WORD = Player("random word", Game.any_of)
LOSER = Player("honest loser", _lose)
DETECTIVE = Player("last turn", _find_out)
QUITTER = Player("quitter", lambda game: _find_out(game) if len(game.turns) < 2 else PROSE)
NOTHING = Player("do nothing", lambda _: Reply(""))
CONSTANT = Player("constant", lambda game: game.guess(game.examiner.solver.words.guesses[0]))
ECHO = Player("echo", lambda game: Reply((game.turns[-1].step if game.turns else game.opening).text))
INVALID = Player("always invalid", lambda _: PROSE)
SPAM = Player("bracket spam", lambda game: Reply(" ".join(game.any_of().text for _ in range(40))))

IDLE_CANARIES = (NOTHING, ECHO, INVALID, SPAM)  # never make a single guess
WORD_CANARIES = (CONSTANT, RANDOM_WORD)  # guess listed words and ignore the marks
