"""Laws of percentages: close to the rate, and 0 or 100 only where nothing or everything is meant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordle_rl.runs.progress import in_percent


@given(total=st.integers(1, 10_000_000), data=st.data(), digits=st.integers(0, 2))
def test_a_share_reads_as_0_or_100_only_if_it_is(total: int, data: st.DataObject, digits: int) -> None:
    share = data.draw(st.integers(0, total)) / total
    text = in_percent(share, digits)
    assert (float(text) in (0, 100)) == (share in (0, 1))
    decimals = len(text.partition(".")[2])
    assert decimals >= digits
    assert float(text) == pytest.approx(100 * share, abs=0.500001 / 10**decimals)


def test_what_rounding_leaves_of_0_and_1_is_0_and_100() -> None:
    assert [in_percent(rate) for rate in (-1e-17, 1e-17, 1 - 1e-16, sum([0.1] * 10))] == [
        "0.0",
        "0.0",
        "100.0",
        "100.0",
    ]
