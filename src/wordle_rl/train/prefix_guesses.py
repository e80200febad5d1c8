"""Prefix guesses by a player: random answers, answers consistent with the marks so far, or the solver teacher.

The number of prefix guesses is uniform from 0 to `max_prefix_guesses`. If a player would win before, it plays again, so
that long prefixes are as frequent as short ones.
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
"""Games that a player may try to reach the wanted number of guesses; after that the longest is taken."""
_TEACHER_GAMES = 16
"""Games that the teacher plays together as one try."""
_NOISE = (0.25, 0.25, 0.5, 0.75)
"""Noise rate of the teacher in its first tries; 1 in later ones, so that long games exist for every secret."""


class PrefixGuesses:
    """Draws the prefix guesses of a group.

    Args:
        words: The word lists.
        solver: Gives a consistent player its candidates; a random player does not use it.
        settings: Most guesses, the player, and the number of openers.
        hard_mode: Each guess must follow the hints of those before it.
    """

    def __init__(self, words: WordList, solver: Solver, settings: StartSettings, *, hard_mode: bool = False) -> None:
        self._words, self._solver, self._hard_mode = words, solver, hard_mode
        self._most, self._num_openers = settings.max_prefix_guesses, settings.num_openers
        self._kind = settings.player.partition(":")[0]

    def __call__(self, secret: str, rng: random.Random) -> tuple[str, ...]:
        """Draw prefix guesses, none of which is the secret."""
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
        openers = [opener for opener in self._openers if opener != secret]
        longest: tuple[str, ...] = ()
        for number in range(_TRIES):
            opener = rng.choice(openers) if openers else None
            found = players[self._kind](secret, opener, wanted, rng, number)
            longest = max(longest, found, key=len)
            if len(longest) == wanted:
                break
        return longest

    @cached_property
    def _openers(self) -> list[str]:
        return [scored.guess for scored in self._solver.best_openers(self._num_openers)] if self._num_openers else []

    def _random(self, secret: str, opener: str | None, wanted: int, rng: random.Random, _: int) -> tuple[str, ...]:
        first = (opener,) if opener is not None else ()
        more = random_given(self._words, secret, rng, wanted, hard_mode=self._hard_mode, before=first, exactly=True)
        return first + more

    def _consistent(self, secret: str, opener: str | None, wanted: int, rng: random.Random, _: int) -> tuple[str, ...]:
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
        # Noise replaces the best guess by any candidate. The more of it, the longer games last.
        noise = _NOISE[number] if number < len(_NOISE) else 1.0
        settings = TeacherSettings(noise_rate=noise)
        if opener is not None:
            settings = settings.model_copy(update={"opener": opener, "random_opener_rate": 0.0})
        games = self._solver_teacher.play([secret] * _TEACHER_GAMES, settings, rng.getrandbits(31), wanted)
        words = self._solver_teacher.words.guesses
        played = ((words[guess] for guess in row if guess >= 0) for row in games.guesses.tolist())  # -1: game over
        return max((tuple(guess for guess in game if guess != secret) for game in played), key=len)

    @cached_property
    def _solver_teacher(self) -> SolverTeacher:
        return SolverTeacher(self._solver)
