"""Laws of percentages: close to the rate, and 0 or 100 only where nothing or everything is meant."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wordle_rl.report
from wordle_rl.runs.progress import in_percent

NEARLY_ALL, NEARLY_NONE = 1999 / 2000, 1 / 3000


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


@pytest.mark.skipif(shutil.which("node") is None, reason="no JavaScript here")
def test_the_page_s_own_script_says_the_same() -> None:
    script = (Path(wordle_rl.report.__file__).parent / "static" / "page.js").read_text()
    function = script[script.index("function inPercent") : script.index("function format")]
    rates = [0, 1, NEARLY_ALL, NEARLY_NONE, 0.5, 0.9996, 1e-17, 0.123]
    done = subprocess.run(
        ["node", "-e", f"{function}\nconsole.log({rates}.map(rate => inPercent(rate)).join(' '))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [in_percent(rate) for rate in rates]
