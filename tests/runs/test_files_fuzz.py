"""Laws of reading JSON lines and objects from anybody: a row, or one line that names file and line; never too much."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refused import refusal

from wordle_rl.runs import RunError, read_jsonl, read_object

PIECES = [
    b"{", b"}", b"[", b"]", b'"secret"', b":", b",", b'"crane"', b"1", b"NaN", b"1e999", b"-", b"null", b"\\ud800",
    b"\xff", b"\x00", b"\n", b"\xef\xbb\xbf", b'{"secret":"crane"}', b"[" * 5000, b'{"a":' * 3000, b"9" * 5000,
    b'"', b" ",
]  # fmt: skip
CONTENT = st.one_of(st.lists(st.sampled_from(PIECES), max_size=8).map(b"".join), st.binary(max_size=60))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=CONTENT)
@pytest.mark.parametrize("read", [lambda path: list(read_jsonl(path)), lambda path: [read_object(path)]])
def test_any_bytes_are_rows_or_one_line(read: Callable[[Path], list], content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_bytes(content)
    if told := refusal(lambda: read(path), RunError):
        assert len(told.splitlines()) == 1
        assert str(path) in told
    else:
        assert all(isinstance(row, dict) for row in read(path))
