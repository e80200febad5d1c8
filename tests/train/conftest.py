"""Fixtures of this room."""

import pytest
from grpo_training import outside_fixture, roll_fixture, train_fixture  # noqa: F401
from round_training import fitted
from sft_training import examples  # noqa: F401


@pytest.fixture
def seen(monkeypatch) -> list:
    """The items of each round, which are not trained on."""
    return fitted(monkeypatch)
