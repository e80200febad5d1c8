"""Weights of a training: always the same, or two sets with a switch once the format is learned.

A schedule has no state: the rubric is a function of the measured format compliance, so that a resumed run continues as
the interrupted one would have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wordle_rl.reward.components import RewardError
from wordle_rl.reward.rubric import Rubric


@dataclass(frozen=True)
class Schedule:
    """The weights `start`, and those of `end`, if there are any, from a format compliance on.

    Attributes:
        start: Weights by component name.
        end: Weights to switch to; None: `start` throughout.
        threshold: Format compliance at which to switch.
        keep_order: See `Rubric`.

    Raises:
        RewardError: If a set does not make a rubric, or the threshold is not above 0 and at most 1.
    """

    start: Mapping[str, float]
    end: Mapping[str, float] | None = None
    threshold: float = 0.9
    keep_order: bool = True

    def __post_init__(self) -> None:
        Rubric(self.start, self.keep_order)
        if self.end is not None:
            Rubric(self.end, self.keep_order)
        if not 0.0 < self.threshold <= 1.0:
            raise RewardError(f"threshold must be above 0 and at most 1, not {self.threshold}")

    def rubric(self, format_compliance: float | None = None) -> Rubric:
        """The rubric at a format compliance.

        A switch is not remembered. A caller that must not switch back passes the best compliance measured so far.

        Args:
            format_compliance: Measured rate of well-formed completions, 0 to 1; None before the first measurement.

        Raises:
            RewardError: If the compliance lies outside 0 to 1.
        """
        if format_compliance is not None and not 0.0 <= format_compliance <= 1.0:
            raise RewardError(f"format_compliance must lie from 0 to 1, got {format_compliance}")
        is_learned = format_compliance is not None and format_compliance >= self.threshold
        return Rubric(self.end if self.end is not None and is_learned else self.start, self.keep_order)
