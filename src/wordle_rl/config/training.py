"""Sampling, optimizer, supervised fine-tuning and rewards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal, Self

from pydantic import Field, model_validator

from wordle_rl.config.base import Count, Section
from wordle_rl.reward import (
    CURRICULA,
    RewardError,
    Schedule,
    named_schedule,
)

Precision = Literal["auto", "bf16", "fp32"]


class SamplingSettings(Section):
    """Sampling of tokens."""

    temperature: float = Field(1.0, ge=0)
    """0 is greedy."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Keep the smallest set of tokens with at least this probability."""
    max_completion_tokens: int = Field(512, ge=1)
    """Bound on one turn's reply, thinking included."""
    max_batch_size: int = Field(1024, ge=1)
    """Most games per forward pass, which bounds activations; the key/value cache holds all games in play."""

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
    warmup_share: float = Field(0.03, ge=0, lt=1)
    """Share of the steps in which the rate rises."""
    warmup_steps: int = Field(0, ge=0)
    """Steps in which the rate rises; 0: as many as warmup_share says."""
    schedule: Literal["constant", "linear", "cosine", "stable_decay"] = "cosine"
    """Schedule after the warm-up; `stable_decay`: constant for 40 % of the steps, then linear to 2 %."""
    max_bad_steps: int = Field(5, ge=1)
    """A step whose loss or gradient is not finite changes no weight; after so many in a row training stops."""


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
    """`bf16` autocast or `fp32`; `auto`: bf16 where the processor computes in it."""
    gradient_checkpointing: bool = False
    """Trade time for memory."""
    save_steps: int = Field(0, ge=0)
    """Checkpoint every so many steps; 0: at the end only."""
    logging_steps: int = Field(10, ge=1)
    """Write metrics every so many steps."""
    validations_per_epoch: int = Field(1, ge=0)
    """Take the loss on teacher games of validation secrets, which are never trained on, so many times per epoch, evenly
    spaced, and after the last step; 0: never."""
    save_each_epoch: bool = False
    """Keep model and tokenizer after each epoch, in sft/epochs."""
    compile: bool = False
    """Run the model through torch.compile while training."""


_DEFAULT_PRESET = "sparse"


def two_rewards(preset: str, where: str, weights: Iterable[str]) -> str:
    """The error where a preset and weights are both given, of which the preset would be ignored."""
    return f"{preset} and {where} ({', '.join(weights)}) both say what is rewarded; leave one of them out"


class RewardSettings(Section):
    """Reward, and the change of its weights while training."""

    preset: str = _DEFAULT_PRESET
    """Name of a reward preset or curriculum."""
    weights: dict[str, float] = Field(default_factory=dict)
    """Your own weights by component name, instead of the preset's."""
    then_preset: str | None = None
    """Preset to move on to; a curriculum cannot be part of another."""
    then_weights: dict[str, float] = Field(default_factory=dict)
    """Your own weights to move on to."""
    over_steps: int = Field(0, ge=0)
    """Move on in a straight line over so many steps; 0: all at once, when enough replies hold a listed word."""
    threshold: float = Field(0.9, gt=0, le=1)
    """With over_steps 0: the share of replies with a listed word at which to move on."""
    keep_order: bool = True
    """Move the weights of winning and of broken rules as far as needed for no loss to outscore a win, and no loss with
    a broken rule an honest one; `--no-` leaves them as given."""

    @model_validator(mode="after")
    def _is_one_reward(self) -> Self:
        for prefix, unset in (("", _DEFAULT_PRESET), ("then_", None)):
            preset, weights = getattr(self, f"{prefix}preset"), getattr(self, f"{prefix}weights")
            if weights and preset != unset:
                raise ValueError(two_rewards(f"{prefix}preset {preset!r}", f"{prefix}weights", weights))
        self.schedule()
        return self

    def schedule(self) -> Schedule:
        """The schedule these settings describe.

        Raises:
            RewardError: If a preset or component is unknown, or a curriculum is to be part of another.
        """
        goes_on = bool(self.then_preset or self.then_weights)
        if self.over_steps and not goes_on:
            raise RewardError("reward.over_steps needs something to move on to: give then_preset or then_weights")
        for name, preset in (("preset", self.preset), ("then_preset", self.then_preset)):
            if goes_on and preset in CURRICULA:
                raise RewardError(
                    f"reward.{name} {preset!r} moves on by itself; give it as reward.preset alone, or name presets"
                )
        if self.preset in CURRICULA and not self.weights:
            return replace(CURRICULA[self.preset], threshold=self.threshold, keep_order=self.keep_order)
        start = self.weights or named_schedule(self.preset).rubric_at(0).weights
        end = None
        if goes_on:
            end = self.then_weights or named_schedule(self.then_preset or "").rubric_at(0).weights
        return Schedule(start, end, self.over_steps, self.threshold, self.keep_order)
