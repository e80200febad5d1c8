"""Fixtures of this room."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from shards import checkpoint  # noqa: F401


@pytest.fixture
def trap(tmp_path) -> Iterator[object]:
    """A value whose pickle leaves a file behind when it is read, which no test may do."""

    class Trap:
        def __reduce__(self) -> tuple:
            return Path.touch, (tmp_path / "ran",)

    yield Trap()
    assert not (tmp_path / "ran").exists()
