"""Every algorithm that learns by play, by the class of its settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wordle_rl.config.stages import DistillSettings, DPOSettings, ExpertIterationSettings, GRPOSettings, PlaySettings
from wordle_rl.train.distill import distill
from wordle_rl.train.dpo import DPO
from wordle_rl.train.expert_iteration import expert_iteration
from wordle_rl.train.grpo import GRPO
from wordle_rl.train.play_loop import Method, Stage

ALGORITHMS: dict[type[PlaySettings], Callable[[Stage, Any], Method]] = {
    GRPOSettings: GRPO,
    ExpertIterationSettings: expert_iteration,
    DPOSettings: DPO,
    DistillSettings: distill,
}
