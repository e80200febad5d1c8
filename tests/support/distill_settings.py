"""Settings of distillation in miniature."""

import pytest

torch = pytest.importorskip("torch")
from training_fixtures import fast

from wordle_rl.config import DistillTraining, SamplingSettings

SETTINGS = DistillTraining(
    rounds=1,
    groups_per_round=6,
    replay_fraction=0.0,
    outside_rate=0.0,
    batch_size=4,
    sampling=SamplingSettings(max_completion_tokens=12),
    optimizer=fast(),
    precision="fp32",
)
