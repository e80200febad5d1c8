"""Settings of one training in full: [rl], the algorithm's section and `max_completion_tokens` as one value.

They are never written in a file. `RunConfig.training` makes them, and training functions take them.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from wordle_rl.config.base import Count
from wordle_rl.config.rl import (
    Algorithm,
    DistillSettings,
    DPOSettings,
    ExpertIterationSettings,
    GRPOSettings,
    RoundFit,
    RoundSettings,
    SharedSettings,
)
from wordle_rl.config.training import SamplingSettings


class RLTraining(SharedSettings):
    """Settings of one training in full."""

    group_size: Count = Field(1, ge=1)
    """Games per secret."""
    sampling: SamplingSettings = SamplingSettings()
    """Sampling of the policy's tokens."""

    @property
    def asks_no_win(self) -> bool:
        """True if the reward compares guesses with the solver's, so that games nobody can win have one."""
        return bool({"regret", "quick_regret"} & {*self.reward.schedule().start})


class GRPOTraining(GRPOSettings, RLTraining):
    """Settings of a GRPO training in full."""

    group_size: Count = Field(16, ge=1)
    """Games per secret."""

    @property
    def learns_without_wins(self) -> bool:
        """True if a game that nobody can win may teach something."""
        return self.asks_no_win

    def check(self) -> None:
        """Refuse settings of GRPO and [rl] that contradict each other."""
        super().check()
        if self.group_size < 2:
            raise ValueError("rl.group_size 1 leaves no baseline; GRPO needs 2 or more, 8 to 16 are usual")
        if self.sampling.temperature == 0:
            raise ValueError("rl.sampling.temperature 0 makes all games of a group alike; raise it, 1.0 is usual")
        if self.outside_rate and not self.asks_no_win:
            raise ValueError(
                "grpo.outside_rate needs a reward that does not ask for a win; give rl.reward.weights quick_regret"
            )
        if self.group_size % self.turn_candidates:
            raise ValueError(f"grpo.turn_candidates {self.turn_candidates} must divide rl.group_size {self.group_size}")
        budget = self.sampling.max_completion_tokens
        if self.engine == "vllm" and 0 < self.vllm.max_length <= budget:
            raise ValueError(
                f"grpo.vllm.max_length {self.vllm.max_length} leaves no prompt besides max_completion_tokens {budget}"
            )
        games = self.groups_per_step * self.group_size
        if self.micro_batch_size and games % self.micro_batch_size:
            raise ValueError(f"grpo.micro_batch_size {self.micro_batch_size} must divide the {games} games of a step")


class RoundTraining(RoundSettings, RoundFit, RLTraining):
    """Settings of a training by rounds in full."""

    _learns_from_single_games: ClassVar[bool] = False
    """True if a group may be one game, which may then be greedy."""

    @property
    def learns_without_wins(self) -> bool:
        """True if a game that nobody can win may teach something."""
        return False

    def check(self) -> None:
        """Refuse greedy games of which a group has several."""
        super().check()
        if self.sampling.temperature == 0 and not (self._learns_from_single_games and self.group_size == 1):
            fix = "set rl.group_size to 1" if self._learns_from_single_games else "raise it, 1.0 is usual"
            raise ValueError(f"rl.sampling.temperature 0 makes all games of a group alike; {fix}")


class ExpertIterationTraining(ExpertIterationSettings, RoundTraining):
    """Settings of expert iteration in full."""

    group_size: Count = Field(8, ge=1)
    """Games per secret."""

    def check(self) -> None:
        """Refuse a choice among games where all of them are trained on."""
        super().check()
        if self.labels != "wins" and "keep_per_group" in self.model_fields_set:
            raise ValueError(
                f"expert_iteration.keep_per_group chooses among wins, and labels {self.labels!r} take every game; "
                "leave it out"
            )


class DPOTraining(DPOSettings, RoundTraining):
    """Settings of a DPO training in full."""

    group_size: Count = Field(4, ge=1)
    """Games per secret."""

    @property
    def learns_without_wins(self) -> bool:
        """True if a game that nobody can win may teach something; `information` prefers the secret to all else."""
        return self.judge == "regret" or (self.judge == "outcome" and self.asks_no_win)

    def check(self) -> None:
        """Refuse outcomes of one game."""
        super().check()
        if self.judge == "outcome" and self.group_size < 2:
            raise ValueError("dpo.judge 'outcome' compares the games of a group; rl.group_size must be at least 2")


class DistillTraining(DistillSettings, RoundTraining):
    """Settings of a distillation in full."""

    group_size: Count = Field(1, ge=1)
    """Games per secret."""

    _learns_from_single_games = True

    @property
    def learns_without_wins(self) -> bool:
        """True: the teacher does not know the secret, and names an answer that fits."""
        return True


Training = GRPOTraining | ExpertIterationTraining | DPOTraining | DistillTraining

TRAININGS: dict[Algorithm, type[Training]] = {
    "grpo": GRPOTraining,
    "expert_iteration": ExpertIterationTraining,
    "dpo": DPOTraining,
    "distill": DistillTraining,
}
