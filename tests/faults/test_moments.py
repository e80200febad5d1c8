"""The moments at which commands are killed are places of today's code."""

import importlib

import pytest
from kills import EXACT

pytest.importorskip("torch")


@pytest.mark.parametrize("moment", sorted({moment for moments in EXACT.values() for moment in moments}))
def test_a_moment_names_a_function_that_its_module_calls(moment) -> None:
    module, name, when, number = moment.split(":")
    place = importlib.import_module(module)
    for part in name.split("."):
        place = getattr(place, part)
    assert callable(place)
    assert when in ("before", "after")
    assert int(number) > 0
