"""Every algorithm in miniature: settings that take a second, and one function that trains by any of them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from training_fixtures import fast

from wordle_rl.config.stages import (
    DistillSettings,
    DPOSettings,
    ExpertIterationSettings,
    GRPOSettings,
    SFTSettings,
    StageSettings,
)
from wordle_rl.config.teachers import TeacherSettings, TraceSettings
from wordle_rl.config.training import RewardSettings, SamplingSettings
from wordle_rl.runs import Run
from wordle_rl.train.algorithms import ALGORITHMS
from wordle_rl.train.example import Example
from wordle_rl.train.learner import Learner
from wordle_rl.train.play_loop import learn_by_play
from wordle_rl.train.sft import train_sft
from wordle_rl.train.starts import GameSetup
from wordle_rl.train.training_loop import Training

PURE = TraceSettings(num_games=1, teacher=TeacherSettings(random_opener_rate=0, noise_rate=0))
"""A teacher that always plays its best."""
SAID = RewardSettings(weights={"scripted:said": 1.0}, keep_order=False)
"""A reward by which the games of an untrained model differ."""
SHORT, LONG = SamplingSettings(max_completion_tokens=6), SamplingSettings(max_completion_tokens=12)
"""Token limits of replies: of GRPO here, and of trainings by rounds."""
SFT = SFTSettings(batch_size=16, epochs=2, optimizer=fast(), logging_steps=1)
GRPO = GRPOSettings(
    steps=4, groups_per_step=2, group_size=4, optimizer=fast(), sample_games=1, max_refills=0, reward=SAID
)
ROUND = {"rounds": 1, "groups_per_round": 1, "optimizer": fast()}
EXPERT_ITERATION = ExpertIterationSettings(**ROUND, group_size=5, keep_per_group=1, replay_fraction=0.0, batch_size=2)
DPO = DPOSettings(**ROUND, group_size=2, boards_per_round=8, guesses_per_board=4, batch_size=2)
DISTILL = DistillSettings(**ROUND | {"groups_per_round": 6}, replay_fraction=0.0, outside_rate=0.0, batch_size=4)

STAGE_OF = {
    SFTSettings: "sft",
    GRPOSettings: "grpo",
    ExpertIterationSettings: "expert_iteration",
    DPOSettings: "dpo",
    DistillSettings: "distill",
}
_OF_THE_LOOP = ("open_policy", "engine", "traces")


def train_by(
    settings: StageSettings,
    learner: Learner,
    setup: GameSetup,
    run: Run,
    examples: Sequence[Example] = (),
    *,
    validation: Sequence[Example] = (),
    **options,
) -> Path:
    """Train by the algorithm that these are the settings of; `examples` are what SFT learns.

    Where the setup has no token limit of its own, games are as short as these miniatures need.
    """
    own = {name: options.pop(name) for name in _OF_THE_LOOP if name in options}
    training = Training(learner, run, STAGE_OF[type(settings)], **options)
    if isinstance(settings, SFTSettings):
        return train_sft(training, examples, settings, validation=validation)
    if setup.sampling == SamplingSettings():
        setup = replace(setup, sampling=SHORT if isinstance(settings, GRPOSettings) else LONG)
    return learn_by_play(ALGORITHMS[type(settings)], training, setup, settings, **{"traces": PURE} | own)
