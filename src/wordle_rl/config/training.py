"""Sampling, optimizer, supervised fine-tuning and rewards."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal, Self

import tyro
from pydantic import Field, model_validator

from wordle_rl.config.base import Count, Section
from wordle_rl.reward import CURRICULA, PRESETS, Rubric, Schedule, named_schedule

Precision = Literal["auto", "bf16", "fp32"]
RateSchedule = Literal["constant", "linear", "cosine", "stable_decay"]


class SamplingSettings(Section):
    """Sampling of completions; made of a run's settings, never written in a file."""

    temperature: float = Field(1.0, ge=0)
    """0 is greedy."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Keep the smallest set of tokens with at least this probability."""
    max_batch_size: int = Field(1024, ge=1)
    """Most games per forward pass."""
    max_completion_tokens: int = Field(512, ge=1)
    """Token limit of a completion, thinking included."""

    def greedy(self) -> SamplingSettings:
        """A copy that always draws the likeliest token."""
        return self.model_copy(update={"temperature": 0.0})


class SFTOptimizerSettings(Section):
    """AdamW, or Muon for the weight matrices inside the layers and AdamW for the rest."""

    learning_rate: float = Field(3e-4, gt=0)
    """Peak learning rate of AdamW."""
    muon_learning_rate: float | None = Field(None, gt=0)
    """Peak learning rate of Muon, 0.02 is usual; None: AdamW trains every weight."""
    schedule: RateSchedule = "cosine"
    """Schedule after the warm-up; `stable_decay`: constant for 40 % of the steps, then linear to 2 %."""


class OptimizerSettings(SFTOptimizerSettings):
    """The optimizer in full: with warm-up and clipping, which SFT leaves as they are here."""

    warmup: float = Field(0.03, ge=0)
    """Steps in which the rate rises; below 1, a fraction of all steps."""
    max_grad_norm: float = Field(1.0, gt=0)
    """Gradient clipping."""


class RLOptimizerSettings(OptimizerSettings):
    """The optimizer and its schedule, with the low constant rate of RL as default."""

    learning_rate: float = Field(3e-5, gt=0)
    """Peak learning rate of AdamW."""
    schedule: RateSchedule = "constant"
    """Schedule after the warm-up; `stable_decay`: constant for 40 % of the steps, then linear to 2 %."""


class FittingSettings(Section):
    """How games are passed through the model in training; a run's are in [model], the same for SFT and RL."""

    precision: Precision = "auto"
    """`bf16` autocast in training passes or `fp32`; `auto`: bf16 where the processor computes in it, but fp32 on the
    GPU of a Mac."""
    gradient_checkpointing: bool = False
    """Trade time for memory: layers are computed again in the backward pass."""
    micro_batch_size: int = Field(0, ge=0)
    """Games per backward pass; 0: all of a batch or step. Games of similar length share a micro-batch, which saves
    padding."""


class SFTSettings(Section):
    """Supervised fine-tuning on teacher games."""

    epochs: float = Field(1.0, ge=0)
    """Passes over the games; 0: no SFT, learning by play starts from the model of model.path."""
    batch_size: Count = Field(256, ge=1)
    """Games per optimizer step and process."""
    optimizer: SFTOptimizerSettings = SFTOptimizerSettings()
    """Optimizer and schedule."""
    save_steps: int = Field(0, ge=0)
    """Checkpoint every this many steps; 0: at the end only."""
    validations_per_epoch: int = Field(1, ge=0)
    """Take the loss on teacher games of validation secrets, which are never trained on, this many times per epoch,
    evenly spaced, and after the last step; 0: never."""
    save_each_epoch: bool = False
    """Keep model and tokenizer after each epoch, in sft/epochs."""


class SFTTraining(SFTSettings, FittingSettings):
    """Settings of one SFT in full, made of [sft] and [model]."""

    optimizer: OptimizerSettings = OptimizerSettings()
    """Optimizer and schedule, warm-up and clipping."""
    max_length: int = Field(1024, ge=8)
    """Longest game in tokens; longer ones are dropped and counted."""
    logging_steps: int = Field(10, ge=1)
    """Write metrics every this many steps."""

    @property
    def batches(self) -> tuple[int, int]:
        """Games of a backward pass, the most that divide the batch, and backward passes of an optimizer step."""
        most = min(self.micro_batch_size or self.batch_size, self.batch_size)
        micro = next(size for size in range(most, 0, -1) if self.batch_size % size == 0)
        return micro, self.batch_size // micro


class FixedRewardSettings(Section):
    """A reward that never changes, for games that others train on."""

    reward_preset: str = "sparse"
    """Reward preset; a session of the server may ask for another."""
    reward_weights: dict[str, float] = Field(default_factory=dict)
    """Your own weights by component name, instead of the preset's."""
    keep_order: Annotated[bool, tyro.conf.arg(help_behavior_hint="")] = True
    """Move the weights of winning and of broken rules as far as needed for no loss to outscore a win, and no loss with
    a broken rule an honest one; `--no-` leaves them as given."""

    @model_validator(mode="after")
    def _is_one_known_reward(self) -> Self:
        if self.reward_weights and self.reward_preset != "sparse":
            raise ValueError("reward_preset and reward_weights both say what is rewarded; leave one of them out")
        if self.reward_preset not in PRESETS:
            raise ValueError(f"unknown reward_preset {self.reward_preset!r}; known are {', '.join(PRESETS)}")
        self.rubric()
        return self

    def rubric(self) -> Rubric:
        """The rubric these settings describe.

        Raises:
            RewardError: If a component is unknown.
        """
        return Rubric(self.reward_weights or PRESETS[self.reward_preset].weights, self.keep_order)


class RewardSettings(Section):
    """Reward of a game."""

    preset: str | None = None
    """Name of a reward preset, or of a curriculum, which switches its weights by measured compliance with the format;
    None: `sparse`, or your weights."""
    weights: dict[str, float] = Field(default_factory=dict)
    """Your own weights by component name, instead of a preset's."""
    keep_order: bool = True
    """Move the weights of winning and of broken rules as far as needed for no loss to outscore a win, and no loss with
    a broken rule an honest one; false leaves them as they are."""

    def check(self) -> None:
        """Refuse two rewards in the same place, and rewards that do not exist."""
        if self.weights and self.preset is not None:
            raise ValueError(
                f"preset {self.preset!r} and weights ({', '.join(self.weights)}) both set the reward; leave one out"
            )
        self.schedule()

    def schedule(self) -> Schedule:
        """The weights these settings describe, and those of a curriculum's second phase.

        Raises:
            RewardError: If a preset or component is unknown.
        """
        if self.weights:
            return Schedule(self.weights, keep_order=self.keep_order)
        preset = self.preset or "sparse"
        found = CURRICULA[preset] if preset in CURRICULA else named_schedule(preset)
        return replace(found, keep_order=self.keep_order)
