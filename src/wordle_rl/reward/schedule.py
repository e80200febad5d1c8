"""Reward weights of a training: constant, or two sets with a switch once the format is learned.

A schedule has no state. The rubric is a function of format compliance, so a resumed run continues like an uninterrupted
one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wordle_rl.reward.components import RewardError
from wordle_rl.reward.rubric import Rubric


@dataclass(frozen=True)
class Schedule:
    """Switch from `start` to `end` weights once format compliance reaches `threshold`.

    Attributes:
        start: Weights by component name.
        end: Weights to switch to. None: keep `start`.
        threshold: Format compliance at which to switch.
        keep_order: See `Rubric`.

    Raises:
        RewardError: If a set is not a valid rubric, or the threshold is not above 0 and at most 1.
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
            raise RewardError(f"threshold is {self.threshold}; give a number above 0 and at most 1")

    def rubric(self, format_compliance: float | None = None) -> Rubric:
        """Return the rubric at a format compliance.

        A switch is not remembered. To never switch back, pass the best compliance so far.

        Args:
            format_compliance: Fraction of well-formed completions, 0 to 1. None: not measured yet.

        Raises:
            RewardError: If it is outside 0 to 1.
        """
        if format_compliance is not None and not 0.0 <= format_compliance <= 1.0:
            raise RewardError(f"format_compliance is {format_compliance}; give a number from 0 to 1")
        is_learned = format_compliance is not None and format_compliance >= self.threshold
        return Rubric(self.end if self.end is not None and is_learned else self.start, self.keep_order)
