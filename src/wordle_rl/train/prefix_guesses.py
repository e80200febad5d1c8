"""Prefix guesses by a player: random answers, answers consistent with the marks so far, or the solver teacher.

The number of prefix guesses is drawn evenly from 0 to the most. A player whose game would be won before that number is
reached plays again, so that boards of many guesses are as frequent as boards of few.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cached_property

from wordle_rl.config import StartSettings, TeacherSettings
from wordle_rl.game import score_guess
from wordle_rl.solver import Solver
from wordle_rl.teachers.solver import SolverTeacher
from wordle_rl.train.initial_states import random_given
from wordle_rl.words import WordList

_TRIES = 24
"""Games that a player may begin to reach a number of guesses; then the longest of them is taken."""
_TEACHER_GAMES = 16
"""Of the teacher, games played together, which count as one try."""
_NOISE = (0.25, 0.25, 0.5, 0.75)
"""Noise of the teacher in its first tries; 1 in all later ones, so that hard-won guesses are reached on any secret."""


class PrefixGuesses:
    """Draws the prefix guesses of a group.

    Args:
        words: The word lists.
        solver: The solver whose answers consistent players choose from; it computes nothing for a random player.
        settings: How many, by whom, and among how many openers.
        hard_mode: Whether each guess must keep to the hints of those before it.
    """

    def __init__(self, words: WordList, solver: Solver, settings: StartSettings, *, hard_mode: bool = False) -> None:
        self._words, self._solver, self._hard_mode = words, solver, hard_mode
        self._most, self._num_openers = settings.max_prefix_guesses, settings.num_openers
        self._kind = settings.player.partition(":")[0]

    def __call__(self, secret: str, rng: random.Random) -> tuple[str, ...]:
        """Prefix guesses for a secret, none of which is the secret."""
        if self._kind == "random" and not self._num_openers:
            return random_given(self._words, secret, rng, self._most, hard_mode=self._hard_mode)
        wanted = rng.randint(0, self._most)
        if not wanted:
            return ()
        players: dict[str, Callable[[str, str | None, int, random.Random, int], tuple[str, ...]]] = {
            "random": self._random,
            "consistent": self._consistent,
            "teacher": self._teacher,
        }
        longest: tuple[str, ...] = ()
        for number in range(_TRIES):
            found = players[self._kind](secret, self._opener(secret, rng), wanted, rng, number)
            longest = max(longest, found, key=len)
            if len(longest) == wanted:
                break
        return longest

    def _opener(self, secret: str, rng: random.Random) -> str | None:
        """One of the best openers, if there is to be one; never the secret."""
        openers = [opener for opener in self._openers if opener != secret]
        return rng.choice(openers) if openers else None

    @cached_property
    def _openers(self) -> list[str]:
        return [scored.guess for scored in self._solver.best_openers(self._num_openers)] if self._num_openers else []

    def _random(self, secret: str, opener: str | None, wanted: int, rng: random.Random, _: int) -> tuple[str, ...]:
        """An opener, then random answers."""
        first = (opener,) if opener is not None else ()
        more = random_given(self._words, secret, rng, wanted, hard_mode=self._hard_mode, before=first, exactly=True)
        return first + more

    def _consistent(self, secret: str, opener: str | None, wanted: int, rng: random.Random, _: int) -> tuple[str, ...]:
        """Answers that fit all marks so far, each as likely as another."""
        answers, candidates = self._solver.words.answers, self._solver.candidates(())
        guesses: list[str] = []
        while len(guesses) < wanted:
            fitting = [answers[place] for place in candidates if answers[place] != secret]
            if not fitting:
                break
            guess = opener if opener is not None and not guesses else rng.choice(fitting)
            guesses.append(guess)
            candidates = self._solver.narrow(candidates, guess, score_guess(secret, guess))
        return tuple(guesses)

    def _teacher(
        self, secret: str, opener: str | None, wanted: int, rng: random.Random, number: int
    ) -> tuple[str, ...]:
        """Guesses of the solver teacher, some of which are any answer that fits; the more, the later the try."""
        noise = _NOISE[number] if number < len(_NOISE) else 1.0
        settings = TeacherSettings(noise_rate=noise)
        if opener is not None:
            settings = settings.model_copy(update={"opener": opener, "random_opener_rate": 0.0})
        games = self._solver_teacher.play([secret] * _TEACHER_GAMES, settings, rng.getrandbits(31), wanted)
        boards = [tuple(self._guesses_of(row, secret)) for row in games.guesses.tolist()]
        return max(boards, key=len)

    def _guesses_of(self, row: list[int], secret: str) -> list[str]:
        played = [self._solver_teacher.words.guesses[guess] for guess in row if guess >= 0]
        return [guess for guess in played if guess != secret]

    @cached_property
    def _solver_teacher(self) -> SolverTeacher:
        return SolverTeacher(self._solver)
