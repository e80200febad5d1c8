"""Settings of sampling, optimizer, supervised fine-tuning and rewards."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal, Self

import tyro
from pydantic import Field, model_validator

from wordle_rl.config.base import ConfigError, Section
from wordle_rl.reward import CURRICULA, PRESETS, Rubric, Schedule, named_schedule

Precision = Literal["auto", "bf16", "fp32"]
RateSchedule = Literal["constant", "linear", "cosine"]


class SamplingSettings(Section):
    """Sampling of completions. Derived from a run's settings, never written in a file."""

    temperature: float = Field(1.0, ge=0)
    """0 is greedy."""
    max_batch_size: int = Field(1024, ge=1)
    """Most games per forward pass."""
    max_completion_tokens: int = Field(512, ge=1)
    """Token limit of a completion, thinking included."""

    def greedy(self) -> SamplingSettings:
        """Return a copy that always takes the likeliest token."""
        return self.model_copy(update={"temperature": 0.0})


def check_vllm_temperature(temperature: float, setting: str) -> None:
    """Refuse a temperature that vLLM would raise to .01 without a word; `setting` names it."""
    if 0 < temperature < 0.01:
        raise ConfigError(
            f"{setting} {temperature:g}: vLLM samples at 0.01 or above; raise it, or set 0 for greedy play"
        )


ADAM_BETAS = (0.9, 0.95)
"""Decay rates of AdamW's two means, everywhere."""


class OptimizerSettings(Section):
    """AdamW, or Muon for the weight matrices inside the layers and AdamW for the rest."""

    learning_rate: float = Field(3e-4, gt=0)
    """Peak learning rate of AdamW."""
    muon_learning_rate: float | None = Field(None, gt=0)
    """Peak learning rate of Muon, usually 0.02. None: AdamW trains all weights."""
    schedule: RateSchedule = "cosine"
    """Schedule after warm-up."""
    warmup: float = Field(0.03, ge=0)
    """Warm-up steps; below 1, a fraction of all steps."""
    max_grad_norm: float = Field(1.0, gt=0)
    """Gradient norm above which gradients are scaled down."""


class RLOptimizerSettings(OptimizerSettings):
    """Optimizer with the low, constant learning rate of RL."""

    learning_rate: float = Field(3e-5, gt=0)
    """Peak learning rate of AdamW."""
    schedule: RateSchedule = "constant"
    """Schedule after warm-up."""


class FittingSettings(Section):
    """How training passes games through the model. A run sets these in [model], for all stages alike."""

    precision: Precision = "auto"
    """`bf16` (autocast in training passes) or `fp32`. `auto`: bf16 if the device computes in it, else fp32; fp32 on the
    GPU of a Mac."""
    gradient_checkpointing: bool = False
    """Save memory by recomputing layers in the backward pass, which takes longer."""
    micro_batch_size: int = Field(0, ge=0)
    """Games per backward pass; 0: all of a batch or step. Games of similar length share one, to save padding. A
    labelled board and a reply of a pair count as a game."""

    def batches(self, batch_size: int) -> tuple[int, int]:
        """Return games per backward pass, and backward passes per optimizer step; their product is `batch_size`.

        Examples:
            >>> FittingSettings(micro_batch_size=80).batches(256)
            (64, 4)
        """
        most = min(self.micro_batch_size or batch_size, batch_size)
        micro = next(size for size in range(most, 0, -1) if batch_size % size == 0)
        return micro, batch_size // micro


class FixedRewardSettings(Section):
    """A constant reward, for games that others train on."""

    reward_preset: str = "sparse"
    """Reward preset. A session of the server may ask for another."""
    reward_weights: dict[str, float] = Field(default_factory=dict)
    """Your own weights by component name, instead of a preset's."""
    keep_order: Annotated[bool, tyro.conf.arg(help_behavior_hint="")] = True
    """Adjust the weights of winning and broken rules so that no loss outscores a win, and no loss with a broken rule an
    honest loss. `--no-` keeps the weights as given."""

    @model_validator(mode="after")
    def _is_one_known_reward(self) -> Self:
        if self.reward_weights and self.reward_preset != "sparse":
            raise ValueError("reward_preset and reward_weights both set the reward; remove one of them")
        if self.reward_preset not in PRESETS:
            raise ValueError(f"reward_preset {self.reward_preset!r} is unknown; give one of {', '.join(PRESETS)}")
        self.rubric()
        return self

    def rubric(self) -> Rubric:
        """Return the rubric of these settings."""
        return Rubric(self.reward_weights or PRESETS[self.reward_preset].weights, self.keep_order)


class RewardPhase(Section):
    """Weights of a part of a stage."""

    at: float = Field(ge=0, le=1)
    """Where the phase begins; the first at 0."""
    weights: dict[str, float]
    """Weights by component name."""


class RewardSettings(Section):
    """Reward of a game."""

    preset: str | None = None
    """Reward preset, or a curriculum that switches its weights once replies follow the format. None: `sparse`, or your
    own weights."""
    weights: dict[str, float] = Field(default_factory=dict)
    """Your own weights by component name, instead of a preset's."""
    phases: tuple[RewardPhase, ...] = ()
    """Your own weights that change: `[{ at = 0, weights = { format = 1 } }, { at = 0.5, weights = { win = 1 } }]`. A
    phase begins `at` this part of the stage: 0 is its first step, 1 its last."""
    phases_by: Literal["steps", "format_compliance"] = "steps"
    """`format_compliance`: a phase begins once this fraction of replies follows the format, as a mean of five steps."""
    glide: bool = False
    """Move on a straight line from the weights of each phase to those of the next, instead of all at once."""
    keep_order: bool = True
    """Adjust the weights of winning and broken rules so that no loss outscores a win, and no loss with a broken rule an
    honest loss. false keeps the weights as given."""

    def check(self) -> None:
        """Check that the reward is set once and exists."""
        given = [name for name in ("preset", "weights", "phases") if not self.is_default(name)]
        if len(given) > 1:
            raise ValueError(
                f"{' and '.join(given)} both set the reward; remove one, on the command line with "
                '--grpo.reward.preset none, --grpo.reward.weights "{}" or --grpo.reward.phases "[]" (in another stage '
                "its name for grpo)"
            )
        # A setting that nobody reads is a typo, or a belief that it acts.
        for name in ("phases_by", "glide"):
            if len(self.phases) < 2 and not self.is_default(name):
                raise ValueError(f"{name} needs two phases or more; add them, or leave it out")
        self.schedule()

    def schedule(self) -> Schedule:
        """Return the weights of these settings, and when they change."""
        if self.weights or self.phases:
            phases = [(phase.at, phase.weights) for phase in self.phases] or [(0.0, self.weights)]
            return Schedule(phases, self.phases_by == "format_compliance", self.glide, self.keep_order)
        preset = self.preset or "sparse"
        found = CURRICULA[preset] if preset in CURRICULA else named_schedule(preset)
        return replace(found, keep_order=self.keep_order)
