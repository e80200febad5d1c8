"""Settings of expert iteration in miniature."""

import pytest

torch = pytest.importorskip("torch")
from training_fixtures import fast

from wordle_rl.config import ExpertIterationTraining, SamplingSettings

SETTINGS = ExpertIterationTraining(
    rounds=1,
    groups_per_round=1,
    group_size=5,
    keep_per_group=1,
    replay_fraction=0.0,
    batch_size=2,
    sampling=SamplingSettings(max_completion_tokens=12),
    optimizer=fast(),
    precision="fp32",
)
