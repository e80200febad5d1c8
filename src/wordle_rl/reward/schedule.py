"""Rubric of a training step: always the same, a linear change, or a switch once the format is learned.

A schedule has no state: the rubric is a function of the step and of the measured format compliance, so that a resumed
run continues as the interrupted one would have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wordle_rl.reward.components import RewardError
from wordle_rl.reward.rubric import Rubric


@dataclass(frozen=True)
class Schedule:
    """The weights of each step: those of `start`, and later those of `end` if there are any.

    Attributes:
        start: Weights by component name.
        end: Weights to move on to; None: `start` at every step.
        over_steps: Move linearly in so many steps; a component named in one set only has weight 0 in the other. 0:
            switch at the threshold.
        threshold: Format compliance at which to switch.
        keep_order: See `Rubric`.

    Raises:
        RewardError: If a set does not make a rubric, `over_steps` is negative, or the threshold is not above 0 and at
            most 1.
    """

    start: Mapping[str, float]
    end: Mapping[str, float] | None = None
    over_steps: int = 0
    threshold: float = 0.9
    keep_order: bool = True

    def __post_init__(self) -> None:
        Rubric(self.start, self.keep_order)
        if self.end is not None:
            Rubric(self.end, self.keep_order)
        if self.over_steps < 0:
            raise RewardError(f"over_steps must not be negative, got {self.over_steps}")
        if not 0.0 < self.threshold <= 1.0:
            raise RewardError(f"threshold must be above 0 and at most 1, not {self.threshold}")

    @property
    def switches(self) -> bool:
        """True if the weights depend on the format compliance."""
        return self.end is not None and not self.over_steps

    def rubric_at(self, step: int, format_compliance: float | None = None) -> Rubric:
        """The rubric of a step.

        A switch is not remembered. A caller that must not switch back passes the best compliance measured so far.

        Args:
            step: Optimizer steps done so far, from 0.
            format_compliance: Measured share of well-formed replies, 0 to 1; None before the first measurement.

        Raises:
            RewardError: If the step is negative or the compliance outside 0 to 1.
        """
        if step < 0:
            raise RewardError(f"step must not be negative, got {step}")
        if format_compliance is not None and not 0.0 <= format_compliance <= 1.0:
            raise RewardError(f"format_compliance must lie from 0 to 1, got {format_compliance}")
        return Rubric(self._weights_at(step, format_compliance), self.keep_order)

    def _weights_at(self, step: int, format_compliance: float | None) -> Mapping[str, float]:
        if self.end is None:
            return self.start
        if not self.over_steps:
            is_learned = format_compliance is not None and format_compliance >= self.threshold
            return self.end if is_learned else self.start
        done = min(1.0, step / self.over_steps)
        return {
            name: (1.0 - done) * self.start.get(name, 0.0) + done * self.end.get(name, 0.0)
            for name in {**self.start, **self.end}
        }
