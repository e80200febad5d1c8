"""Players without a model: the solver, two random baselines, and your own."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from wordle_rl.config.base import ConfigError
from wordle_rl.game import Turn
from wordle_rl.import_paths import check_call, is_import_path, resolve
from wordle_rl.policy.base import Completion, Request
from wordle_rl.prompt import Prompter
from wordle_rl.solver import Solver, fitting_answers
from wordle_rl.words import WordList

PLAYER_NAMES = ("solver", "consistent", "random")
"""Names of the players in this file, as commands take them."""
RANDOM_PLAYERS = ("consistent", "random")
"""Players whose draws depend on all earlier draws, so that no game can be repeated alone."""


class _WithoutModel(ABC):
    def __init__(self, words: WordList, prompter: Prompter, seed: int = 0) -> None:
        self.codec = None
        self._words, self._prompter, self._seed = words, prompter, seed
        self.begin()

    def begin(self) -> None:
        """Restart the random stream, so that the same games are played again."""
        self._rng = random.Random(self._seed)

    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """Return one reply per request, without thinking."""
        return [Completion(self._prompter.reply(self._guess(request), "")) for request in requests]

    @abstractmethod
    def _guess(self, request: Request) -> str:
        """Return the guess of one game."""


class SolverSampler(_WithoutModel):
    """Play the solver's best guess, or a random listed word if no answer fits."""

    def __init__(self, solver: Solver, prompter: Prompter, seed: int = 0) -> None:
        super().__init__(solver.words, prompter, seed)
        self._solver = solver

    def _guess(self, request: Request) -> str:
        seen = [(turn.guess, turn.marks) for turn in request.turns if turn.guess and turn.marks]
        candidates = self._solver.candidates(seen)
        if not len(candidates):
            return self._rng.choice(self._words.guesses)
        return self._solver.best_guess(candidates, self._prompter.turns_left(request.turns))


class ConsistentSampler(_WithoutModel):
    """Play a random answer that fits the marks, or a random listed word if none fits.

    The usual baseline: it uses every clue and plans nothing.
    """

    def __init__(self, solver: Solver, prompter: Prompter, seed: int = 0) -> None:
        super().__init__(solver.words, prompter, seed)
        self._fitting = fitting_answers(solver)

    def _guess(self, request: Request) -> str:
        fitting = self._fitting(request.turns)
        return self._words.answers[self._rng.choice(fitting)] if len(fitting) else self._rng.choice(self._words.guesses)


class RandomSampler(_WithoutModel):
    """Play a random listed word, whatever the board: the floor for all results."""

    def _guess(self, _request: Request) -> str:
        return self._rng.choice(self._words.guesses)


Play = Callable[[Sequence[Sequence[Turn]]], Sequence[str]]
"""Your own player: takes the boards (the turns so far) and returns a guess or a whole reply for each."""


def is_own_player(name: str) -> bool:
    """True if a player's name is an import path; `openai:MODEL` looks like one."""
    return is_import_path(name) and not name.startswith("openai:")


class OwnSampler:
    """Ask your own player, from outside the package.

    `path` is the import path, `module:attribute`, of a function that takes all boards of a turn, or of a class. A class
    is created once with the word list and a seed, and its instance is called. The player sees only boards, so it cannot
    know the secret. `setting` is named in error messages.
    """

    def __init__(self, path: str, setting: str, words: WordList, prompter: Prompter, seed: int = 0) -> None:
        self.codec = None
        self.path, self.prompter = path, prompter
        self._shown = f"{setting} {path!r}"
        found = resolve(path, setting, ConfigError)
        if isinstance(found, type):
            check_call(found, self._shown, ConfigError, takes="words, seed")
            found = found(words, seed)
        if not callable(found):
            raise ConfigError(f"{self._shown} cannot be called; give its class a __call__ that takes boards")
        check_call(found, self._shown, ConfigError, takes="boards")
        self._play: Play = found

    def begin(self) -> None:
        """Do nothing: every call passes whole boards."""

    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """Return one reply per request."""
        replies = self._play([request.turns for request in requests])
        texts = isinstance(replies, list | tuple) and all(isinstance(reply, str) for reply in replies)
        if not texts or len(replies) != len(requests):
            raise ConfigError(
                f"{self._shown} must return a list with one guess or reply (text) per board, {len(requests)} here"
            )
        return [Completion(self.prompter.reply(reply) if reply.isalpha() else reply) for reply in replies]
