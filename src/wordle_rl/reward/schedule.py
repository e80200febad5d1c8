"""Which rubric a training step uses: always the same, a linear change, or a switch once the format is learned.

A schedule has no state: the rubric is a function of the step and of the measured format compliance, so that a resumed
run continues as the interrupted one would have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from wordle_rl.reward.components import RewardError
from wordle_rl.reward.rubric import Rubric


class Schedule(Protocol):
    """Gives the rubric of each step."""

    def rubric_at(self, step: int, format_compliance: float | None = None) -> Rubric:
        """The rubric of a step.

        Args:
            step: Optimizer steps done so far, from 0.
            format_compliance: Measured share of well-formed replies, 0 to 1; None before the first measurement.

        Raises:
            RewardError: If the step is negative or the compliance outside 0 to 1.
        """
        ...


@dataclass(frozen=True)
class FixedSchedule:
    """The same weights at every step.

    Raises:
        RewardError: If the weights do not make a rubric.
    """

    weights: Mapping[str, float]
    keep_order: bool = True

    def __post_init__(self) -> None:
        Rubric(self.weights, self.keep_order)

    def rubric_at(self, step: int, format_compliance: float | None = None) -> Rubric:
        """The same rubric at every step."""
        _check(step, format_compliance)
        return Rubric(self.weights, self.keep_order)


@dataclass(frozen=True)
class LinearSchedule:
    """Weights that move linearly from `start` to `end` in `over_steps` steps and stay there.

    A component named in one set only has weight 0 in the other.

    Raises:
        RewardError: If a set does not make a rubric or `over_steps` is below 1.
    """

    start: Mapping[str, float]
    end: Mapping[str, float]
    over_steps: int
    keep_order: bool = True

    def __post_init__(self) -> None:
        Rubric(self.start, self.keep_order)
        Rubric(self.end, self.keep_order)
        if self.over_steps < 1:
            raise RewardError(f"over_steps must be at least 1, not {self.over_steps}")

    def rubric_at(self, step: int, format_compliance: float | None = None) -> Rubric:
        """The rubric between `start` and `end` at this step; the compliance is not used."""
        _check(step, format_compliance)
        done = min(1.0, step / self.over_steps)
        weights = {
            name: (1.0 - done) * self.start.get(name, 0.0) + done * self.end.get(name, 0.0)
            for name in {**self.start, **self.end}
        }
        return Rubric(weights, self.keep_order)


@dataclass(frozen=True)
class SwitchSchedule:
    """One set of weights until the format compliance reaches `threshold`, another from then on.

    It does not remember a switch. A caller that must not switch back passes the best compliance measured so far.

    Raises:
        RewardError: If a set does not make a rubric or the threshold is not above 0 and at most 1.
    """

    before: Mapping[str, float]
    after: Mapping[str, float]
    threshold: float = 0.9
    keep_order: bool = True

    def __post_init__(self) -> None:
        Rubric(self.before, self.keep_order)
        Rubric(self.after, self.keep_order)
        if not 0.0 < self.threshold <= 1.0:
            raise RewardError(f"threshold must be above 0 and at most 1, not {self.threshold}")

    def rubric_at(self, step: int, format_compliance: float | None = None) -> Rubric:
        """`before` below the threshold or without a measurement, else `after`."""
        _check(step, format_compliance)
        switched = format_compliance is not None and format_compliance >= self.threshold
        return Rubric(self.after if switched else self.before, self.keep_order)


def _check(step: int, format_compliance: float | None) -> None:
    if step < 0:
        raise RewardError(f"step must not be negative, got {step}")
    if format_compliance is not None and not 0.0 <= format_compliance <= 1.0:
        raise RewardError(f"format_compliance must lie from 0 to 1, got {format_compliance}")
