"""Fixtures of this room."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_hub import FakeHub, open_hub
from shards import checkpoint  # noqa: F401


@pytest.fixture
def trap(tmp_path) -> Iterator[object]:
    """A value whose pickle leaves a file behind when it is read, which no test may do."""

    class Trap:
        def __reduce__(self) -> tuple:
            return Path.touch, (tmp_path / "ran",)

    yield Trap()
    assert not (tmp_path / "ran").exists()


@pytest.fixture
def hub(tmp_path_factory, monkeypatch) -> Iterator[FakeHub]:
    """A hub that this process asks, with a cache of its own."""
    with open_hub() as found:
        address = f"{found.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", found.url)
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", address)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield found
