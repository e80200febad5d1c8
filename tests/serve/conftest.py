"""A server with the default settings, which these tests share."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package")
def server() -> Iterator[object]:
    pytest.importorskip("openenv")
    from wordle_server import wordle_server

    with wordle_server() as running:
        yield running
