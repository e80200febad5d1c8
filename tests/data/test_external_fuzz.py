"""Laws of reading other people's rows: whatever the bytes, rows that are counted, or one line that names the file."""

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refused import refusal

from wordle_rl.config import ConfigError
from wordle_rl.data import trace_files
from wordle_rl.data.external import chat_traces
from wordle_rl.data.trace_files import read_games
from wordle_rl.game import Rules
from wordle_rl.prompt import Prompter
from wordle_rl.runs import RunError
from wordle_rl.train.starts_file import read_start_boards
from wordle_rl.words.split import split_secrets

PIECES = [
    b"secret,past_guess_history\n", b"instruction,output\n", b'crane,"[]"\n', b"[" * 3000, b'"', b",", b"\n", b"\r",
    b"\x00", b"\xff", b'{"secret":"crane","past_guess_history":"[[[["}\n', b'{"secret":', b"[" * 5000, b"\xef\xbb\xbf",
    b"PAR1", b'{"instruction":"a","output":"<guess>crane</guess>"}\n', b"1" * 6000,
    b'{"secret":"crane","past_guess_history":1}\n', b'{"secret":"crane","past_guess_history":[["crane","GGGGG"]]}\n',
    b"\xe2\x80\xa8", b"crane,('" + b"(" * 900 + b"\n",
]  # fmt: skip
CONTENT = st.one_of(st.lists(st.sampled_from(PIECES), max_size=8).map(b"".join), st.binary(max_size=80))
SUFFIXES = st.sampled_from([".csv", ".jsonl", ".parquet"])


def taken(path: Path, small_words, form: str = "grpo") -> object:
    if form == "grpo":
        return read_start_boards(path, small_words, split_secrets(small_words), Rules(), outside=True)
    return list(chat_traces(path, small_words, Prompter()))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=CONTENT, suffix=SUFFIXES, form=st.sampled_from(["grpo", "instruction"]))
def test_any_bytes_are_rows_or_one_line(content: bytes, suffix: str, form: str, small_words, tmp_path: Path) -> None:
    path = tmp_path / f"data{suffix}"
    path.write_bytes(content)
    if told := refusal(lambda: taken(path, small_words, form), ConfigError, RunError):
        assert len(told.splitlines()) == 1
        assert path.name in told


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=CONTENT, headed=st.booleans())
def test_any_bytes_are_teacher_games_or_one_line(content: bytes, headed: bool, tmp_path: Path) -> None:
    head = ",".join(trace_files.COLUMNS).encode() + b"\n" if headed else b""
    path = tmp_path / "wordle_data_CRANE.csv"
    path.write_bytes(head + content)
    if told := refusal(lambda: list(read_games(tmp_path)), RunError):
        assert len(told.splitlines()) == 1
        assert path.name in told
