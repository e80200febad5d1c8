"""The games that several checks look at, played once for all of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import fmean

from wordle_rl.conformance.dialects import Dialect
from wordle_rl.conformance.games import Board, Game, Player, play_game
from wordle_rl.conformance.players import SOLVER
from wordle_rl.conformance.target import Session, Target
from wordle_rl.solver import Solver


@dataclass(frozen=True)
class Settings:
    """Settings of an examination.

    Attributes:
        games: Games a player plays in a check that counts.
        seed: Seed of the players; games are opened with `seed`, `seed + 1`, ….
        max_turns: Guesses of a game.
        max_refusals: Replies that may be refused without cost in one game.
        max_reward: Declared reward of a perfect game; None: not declared.
        oracle_tolerance: By how much the solver's games may stay below it.
        floor_margin: By how much the solver must stand above doing nothing.
    """

    games: int = 30
    seed: int = 0
    max_turns: int = 6
    max_refusals: int = 10
    max_reward: float | None = None
    oracle_tolerance: float = 0.0
    floor_margin: float = 0.1

    @property
    def max_replies(self) -> int:
        """Replies after which a game counts as never ending."""
        return self.max_turns + self.max_refusals


@dataclass
class Examiner:
    """A target, what was played on it so far, and the ids of the checks that it passed."""

    target: Target
    solver: Solver
    dialect: Dialect
    settings: Settings
    passed: set[str] = field(default_factory=set)
    _games: dict[tuple[str, int], Game] = field(default_factory=dict)

    @property
    def seeds(self) -> range:
        """Seeds of the games that count."""
        return range(self.settings.seed, self.settings.seed + self.settings.games)

    def games(self, player: Player, count: int | None = None) -> list[Game]:
        """Games of one player over the seeds, or the first `count` of them; each is played once and kept."""
        return [self.game(player, seed) for seed in self.seeds[:count]]

    def game(self, player: Player, seed: int) -> Game:
        """One game, played once and kept."""
        key = (player.name, seed)
        if key not in self._games:
            self._games[key] = self.play(player, seed, looks_beside=True)
        return self._games[key]

    def play(self, player: Player, seed: int, *, looks_beside: bool = False) -> Game:
        """One game in a session of its own."""
        with self.session(seed) as session:
            board = self.board(session, player.name, seed)
            limit = self.settings.max_replies
            return play_game(session, player, board, seed=seed, max_replies=limit, looks_beside=looks_beside)

    def board(self, session: Session, player: str, seed: int) -> Board:
        """The board of a game before its first reply."""
        rng = random.Random(f"{self.settings.seed}:{player}:{seed}")
        return Board(session.opening, (), self.settings.max_turns, self.solver, self.dialect, rng)

    @contextmanager
    def session(self, seed: int) -> Iterator[Session]:
        """A session that is closed again."""
        session = self.target.open(seed)
        try:
            yield session
        finally:
            session.close()

    def secrets(self, count: int | None = None) -> dict[int, str]:
        """Secrets that the solver found, by seed."""
        return {game.seed: game.secret for game in self.games(SOLVER, count) if game.secret is not None}


def mean_total(games: list[Game]) -> float:
    """Mean reward of games; 0 without any."""
    return fmean(game.total for game in games) if games else 0.0
