"""Sampling, optimizer, supervised fine-tuning and rewards."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, Self

from pydantic import Field, model_validator

from wordle_rl.config.base import Count, Section
from wordle_rl.reward import CURRICULA, PRESETS, RewardError, Rubric, Schedule, named_schedule

Precision = Literal["auto", "bf16", "fp32"]


class TokenSampling(Section):
    """Sampling of the policy's tokens."""

    temperature: float = Field(1.0, ge=0)
    """0 is greedy."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Keep the smallest set of tokens with at least this probability."""
    max_batch_size: int = Field(1024, ge=1)
    """Most games per forward pass, which bounds activations; the key/value cache holds all games in play."""


class SamplingSettings(TokenSampling):
    """Sampling of completions: tokens, and how many of them."""

    max_completion_tokens: int = Field(512, ge=1)
    """Token limit of a completion, thinking included."""

    def greedy(self) -> SamplingSettings:
        """A copy that always draws the likeliest token."""
        return self.model_copy(update={"temperature": 0.0})


class OptimizerSettings(Section):
    """The optimizer and its schedule."""

    name: Literal["adamw", "muon"] = "adamw"
    """`muon`: Muon for the weight matrices inside the layers, AdamW for the rest."""
    learning_rate: float = Field(3e-4, gt=0)
    """Peak learning rate of AdamW."""
    muon_learning_rate: float = Field(0.02, gt=0)
    """Peak learning rate of Muon."""
    weight_decay: float = Field(0.0, ge=0)
    """Decoupled weight decay."""
    max_grad_norm: float = Field(1.0, gt=0)
    """Gradient clipping."""
    warmup_fraction: float = Field(0.03, ge=0, lt=1)
    """Fraction of the steps in which the rate rises."""
    warmup_steps: int = Field(0, ge=0)
    """Steps in which the rate rises; 0: by warmup_fraction."""
    schedule: Literal["constant", "linear", "cosine", "stable_decay"] = "cosine"
    """Schedule after the warm-up; `stable_decay`: constant for 40 % of the steps, then linear to 2 %."""


class RLOptimizerSettings(OptimizerSettings):
    """The optimizer and its schedule, with the low constant rate of RL as default."""

    learning_rate: float = Field(3e-5, gt=0)
    """Peak learning rate of AdamW."""
    schedule: Literal["constant", "linear", "cosine", "stable_decay"] = "constant"
    """Schedule after the warm-up; `stable_decay`: constant for 40 % of the steps, then linear to 2 %."""


class SFTSettings(Section):
    """Supervised fine-tuning on teacher games."""

    epochs: float = Field(1.0, ge=0)
    """Passes over the games; 0: no SFT, learning by play starts from the model of model.path."""
    batch_size: Count = Field(256, ge=1)
    """Games per batch and process."""
    gradient_accumulation_steps: int = Field(1, ge=1)
    """Batches per optimizer step."""
    max_length: int = Field(1024, ge=8)
    """Longest game in tokens; longer ones are dropped and counted."""
    optimizer: OptimizerSettings = OptimizerSettings()
    """Optimizer and schedule."""
    precision: Precision = "auto"
    """`bf16` autocast or `fp32`; `auto`: bf16 where the processor computes in it, fp32 on the GPU of a Mac."""
    gradient_checkpointing: bool = False
    """Trade time for memory."""
    save_steps: int = Field(0, ge=0)
    """Checkpoint every this many steps; 0: at the end only."""
    logging_steps: int = Field(10, ge=1)
    """Write metrics every this many steps."""
    validations_per_epoch: int = Field(1, ge=0)
    """Take the loss on teacher games of validation secrets, which are never trained on, this many times per epoch,
    evenly spaced, and after the last step; 0: never."""
    save_each_epoch: bool = False
    """Keep model and tokenizer after each epoch, in sft/epochs."""


class FixedRewardSettings(Section):
    """A reward that never changes, for games that others train on."""

    reward_preset: str = "sparse"
    """Reward preset; a session of the server may ask for another."""
    reward_weights: dict[str, float] = Field(default_factory=dict)
    """Your own weights by component name, instead of the preset's."""
    keep_order: bool = True
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
    """Reward, and a switch of its weights while training."""

    preset: str = "sparse"
    """Name of a reward preset or curriculum."""
    weights: dict[str, float] = Field(default_factory=dict)
    """Your own weights by component name, instead of the preset's."""
    then_preset: str | None = None
    """Preset to switch to once the format is learned; a curriculum cannot be part of another."""
    then_weights: dict[str, float] = Field(default_factory=dict)
    """Your own weights to switch to."""
    threshold: float = Field(0.9, gt=0, le=1)
    """Fraction of completions with a listed word at which to switch."""
    keep_order: bool = True
    """Move the weights of winning and of broken rules as far as needed for no loss to outscore a win, and no loss with
    a broken rule an honest one; `--no-` leaves them as they are."""

    def check(self) -> None:
        """Refuse two rewards in the same place, and rewards that do not exist."""
        for prefix in ("", "then_"):
            preset, weights = f"{prefix}preset", getattr(self, f"{prefix}weights")
            if weights and preset in self.model_fields_set:
                raise ValueError(
                    f"{preset} {getattr(self, preset)!r} and {prefix}weights ({', '.join(weights)}) both set the "
                    "reward; leave one of them out"
                )
        schedule = self.schedule()
        if "threshold" in self.model_fields_set and schedule.end is None:
            raise ValueError("threshold needs a reward to switch to: give then_preset or then_weights, or a curriculum")

    def schedule(self) -> Schedule:
        """The schedule these settings describe.

        Raises:
            RewardError: If a preset or component is unknown, or a curriculum is to be part of another.
        """
        switches = bool(self.then_preset or self.then_weights)
        for name, preset in (("preset", self.preset), ("then_preset", self.then_preset)):
            if switches and preset in CURRICULA:
                raise RewardError(
                    f"reward.{name} {preset!r} switches by itself; give it as reward.preset alone, or name presets"
                )
        if self.preset in CURRICULA and not self.weights:
            return replace(CURRICULA[self.preset], threshold=self.threshold, keep_order=self.keep_order)
        start = self.weights or named_schedule(self.preset).start
        end = None
        if switches:
            end = self.then_weights or named_schedule(self.then_preset or "").start
        return Schedule(start, end, self.threshold, self.keep_order)
