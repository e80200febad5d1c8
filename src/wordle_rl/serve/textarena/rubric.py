"""The four signals of openenv's Wordle as a rubric: greens, yellows, repetitions, correct."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from openenv.core.rubrics import Rubric

from wordle_rl.game import Turn


class SignalRubric(Rubric):
    """A leaf of the tree: one signal of the last turn, 0 to 1."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # openenv's
        self.value = 0.0

    def forward(self, action: Any, observation: Any) -> float:
        """Return the signal."""
        return self.value


class SignalsRubric(Rubric):
    """The tree; its own score is the reward of the turn: 1 for the winning turn, otherwise 0.

    `greens` and `yellows` are fractions of the marks of the last turn, 0 for a repeated guess. `repetitions` is 1 for a
    new guess, 0 for a repeated one or no guess. `correct` is 1 for the secret.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # openenv's
        self.greens, self.yellows, self.repetitions, self.correct = (SignalRubric() for _ in range(4))

    def judge(self, turn: Turn, before: Sequence[Turn]) -> None:
        """Set the signals of a turn, given the turns before it."""
        is_new = turn.guess is not None and all(turn.guess != earlier.guess for earlier in before)
        marks = turn.marks if turn.marks is not None and is_new else ""
        letters = max(len(marks), 1)
        self.greens.value = marks.count("G") / letters
        self.yellows.value = marks.count("Y") / letters
        self.repetitions.value = float(is_new)
        self.correct.value = float(bool(marks) and not marks.strip("G"))

    def forward(self, action: Any, observation: Any) -> float:
        """Score every leaf and return the reward of the turn judged last."""
        for leaf in self.children():
            leaf(action, observation)
        return self.correct.value

    def reset(self) -> None:
        """Forget the last game."""
        for leaf in (self.greens, self.yellows, self.repetitions, self.correct):
            leaf.value, leaf.last_score = 0.0, None
        self.last_score = None
