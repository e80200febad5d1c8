"""Every algorithm in miniature: settings that take a second, and one function that trains by any of them."""

from collections.abc import Sequence
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from training_fixtures import fast

from wordle_rl.config import (
    DistillTraining,
    DPOTraining,
    ExpertIterationTraining,
    GRPOTraining,
    RewardSettings,
    SamplingSettings,
    SFTTraining,
    TeacherSettings,
    TraceSettings,
)
from wordle_rl.data.dataset import Example
from wordle_rl.runs import Run
from wordle_rl.train.distill import train_distill
from wordle_rl.train.dpo import train_dpo
from wordle_rl.train.expert_iteration import train_expert_iteration
from wordle_rl.train.grpo import train_grpo
from wordle_rl.train.learner import Learner
from wordle_rl.train.sft import train_sft
from wordle_rl.train.starts import GameSetup

PURE = TraceSettings(num_games=1, teacher=TeacherSettings(random_opener_rate=0, noise_rate=0))
"""A teacher that always plays its best."""
SAID = RewardSettings(weights={"scripted:said": 1.0}, keep_order=False)
"""A reward by which the games of an untrained model differ."""
SFT = SFTTraining(batch_size=16, epochs=2, optimizer=fast(), precision="fp32", logging_steps=1)
GRPO = GRPOTraining(
    steps=4,
    groups_per_step=2,
    group_size=4,
    sampling=SamplingSettings(max_completion_tokens=6),
    optimizer=fast(),
    precision="fp32",
    sample_games=1,
    max_refills=0,
    reward=SAID,
)
ROUND = {
    "rounds": 1,
    "groups_per_round": 1,
    "sampling": SamplingSettings(max_completion_tokens=12),
    "optimizer": fast(),
    "precision": "fp32",
}
EXPERT_ITERATION = ExpertIterationTraining(**ROUND, group_size=5, keep_per_group=1, replay_fraction=0.0, batch_size=2)
DPO = DPOTraining(**ROUND, group_size=2, boards_per_round=8, guesses_per_board=4, batch_size=2)
DISTILL = DistillTraining(**ROUND | {"groups_per_round": 6}, replay_fraction=0.0, outside_rate=0.0, batch_size=4)

Settings = SFTTraining | GRPOTraining | ExpertIterationTraining | DPOTraining | DistillTraining


def train_by(
    settings: Settings, learner: Learner, setup: GameSetup, run: Run, examples: Sequence[Example] = (), **options
) -> Path:
    """Train by the algorithm that these are the settings of; `examples` are what SFT learns."""
    match settings:
        case SFTTraining():
            return train_sft(learner, examples, settings, run, **options)
        case GRPOTraining():
            return train_grpo(learner, setup, settings, run, **options)
        case DPOTraining():
            return train_dpo(learner, setup, settings, run, **options)
        case DistillTraining():
            return train_distill(learner, setup, settings, run, **{"traces": PURE} | options)
    return train_expert_iteration(learner, setup, settings, run, **options)
