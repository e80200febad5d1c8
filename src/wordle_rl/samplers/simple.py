"""Players without a model: the solver, and two baselines that guess at random."""

from __future__ import annotations

import random
from collections.abc import Sequence

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
