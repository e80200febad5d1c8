"""Ray nodes that all trainings of these tests share."""

from collections.abc import Iterator

import pytest
from verl_cluster import ray_nodes


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    """Address of two Ray nodes on this machine."""
    with ray_nodes(2) as address:
        yield address
