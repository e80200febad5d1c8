"""GRPO in miniature, for every test of this folder."""

import pytest


@pytest.fixture
def train(tokenizer, codec, sixty, monkeypatch):
    """Runs `train_grpo` and keeps what it did."""
    pytest.importorskip("torch")
    from grpo_training import Training

    return Training(tokenizer, codec, sixty, monkeypatch)


@pytest.fixture
def roll(tokenizer, codec, sixty, tmp_path):
    """Makes rollouts of sixty words, each with a run of its own."""
    pytest.importorskip("torch")
    from group_games import Roll

    def make(**changes) -> Roll:
        return Roll(tokenizer, codec, sixty, tmp_path / f"run{len(list(tmp_path.iterdir()))}", **changes)

    return make


@pytest.fixture
def outside(tokenizer, codec, tmp_path):
    """Rollouts over the words of the reward tests in which no secret is an answer."""
    pytest.importorskip("torch")
    from group_games import SETTINGS, Roll
    from reward_games import WORDS

    from wordle_rl.config import GRPOTraining

    reward = {"weights": {"quick_regret": -6.0}, "keep_order": False}
    changes = {"outside_rate": 1.0, "credit": "guess", "reward": reward}
    return Roll(
        tokenizer,
        codec,
        WORDS,
        tmp_path,
        settings=GRPOTraining.model_validate(SETTINGS.model_dump(exclude_unset=True) | changes),
    )
