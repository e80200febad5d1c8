"""Players without a model: the solver, two baselines that guess at random, and players of your own."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from wordle_rl.config import ConfigError
from wordle_rl.game import Turn
from wordle_rl.import_paths import check_call, is_import_path, resolve
from wordle_rl.prompt import Prompter
from wordle_rl.samplers.base import Completion, Request
from wordle_rl.solver import Solver
from wordle_rl.solver.boards import fitting_answers
from wordle_rl.words import WordList

PLAYER_NAMES = ("solver", "consistent", "random")
"""The players of this file, by the names that commands take."""
RANDOM_PLAYERS = ("consistent", "random")
"""Those whose every draw depends on all draws before it, so that a game cannot be repeated alone."""


class _WithoutModel:
    """A prompter that words the guesses, and a random stream."""

    def __init__(self, prompter: Prompter, seed: int) -> None:
        self.codec = None
        self._prompter = prompter
        self._seed = seed
        self._rng = random.Random(seed)

    def begin(self) -> None:
        """Restart the random stream, so that the same games are played again."""
        self._rng = random.Random(self._seed)


class SolverSampler(_WithoutModel):
    """Plays the guess the solver thinks best; with no answer left it names a random listed word."""

    def __init__(self, solver: Solver, prompter: Prompter, seed: int = 0) -> None:
        super().__init__(prompter, seed)
        self._solver = solver

    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """One best guess per request."""
        return [Completion(self._prompter.reply(self._guess(request), "")) for request in requests]

    def _guess(self, request: Request) -> str:
        seen = [(turn.guess, turn.marks) for turn in request.turns if turn.guess and turn.marks]
        candidates = self._solver.candidates(seen)
        if not len(candidates):
            return self._rng.choice(self._solver.words.guesses)
        turns_left = self._prompter.rules.max_turns - sum(turn.costs_turn for turn in request.turns)
        return self._solver.best_guess(candidates, turns_left)


class ConsistentSampler(_WithoutModel):
    """Names any answer that fits the marks, each as likely as another; with none left, a random listed word.

    The usual baseline: it uses every clue and plans nothing.
    """

    def __init__(self, solver: Solver, prompter: Prompter, seed: int = 0) -> None:
        super().__init__(prompter, seed)
        self._words = solver.words
        self._fitting = fitting_answers(solver)

    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """One random consistent answer per request."""
        return [Completion(self._prompter.reply(self._guess(request), "")) for request in requests]

    def _guess(self, request: Request) -> str:
        fitting = self._fitting(request.turns)
        return self._words.answers[self._rng.choice(fitting)] if len(fitting) else self._rng.choice(self._words.guesses)


class RandomSampler(_WithoutModel):
    """Names any listed word, whatever the board: the floor under every figure."""

    def __init__(self, words: WordList, prompter: Prompter, seed: int = 0) -> None:
        super().__init__(prompter, seed)
        self._words = words

    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """One random listed word per request."""
        return [Completion(self._prompter.reply(self._rng.choice(self._words.guesses), "")) for _ in requests]


Play = Callable[[Sequence[Sequence[Turn]]], Sequence[str]]
"""A player of your own: boards, each with its turns so far, to a guess (letters alone) or a whole reply for each."""


def is_own_player(name: str) -> bool:
    """True if a player's name is an import path; `openai:MODEL` looks like one."""
    return is_import_path(name) and not name.startswith("openai:")


class OwnSampler:
    """Asks a player of your own, from outside the package.

    The import path names a function, which is called with all boards of a turn, or a class, which is made once with the
    word list and a seed and whose instance is called. Boards are all that it gets: it cannot know the secret.

    Args:
        path: `module:attribute`.
        setting: Name of the setting, for messages.
        words: The word list.
        prompter: Words a guess as a reply.
        seed: Seed for the class.

    Raises:
        ConfigError: If there is no such function or class, or it cannot be called so.
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
            raise ConfigError(f"{self._shown} has no __call__; give it one that takes boards")
        check_call(found, self._shown, ConfigError, takes="boards")
        self._play: Play = found

    def begin(self) -> None:
        """Nothing to forget: every call brings whole boards."""

    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """One reply per request.

        Raises:
            ConfigError: If the player returns anything but as many texts.
        """
        replies = self._play([request.turns for request in requests])
        if (
            not isinstance(replies, list | tuple)
            or len(replies) != len(requests)
            or not all(isinstance(reply, str) for reply in replies)
        ):
            raise ConfigError(
                f"{self._shown} must return a list with one guess or reply (text) per board, {len(requests)} here"
            )
        return [Completion(self.prompter.reply(reply) if reply.isalpha() else reply) for reply in replies]
