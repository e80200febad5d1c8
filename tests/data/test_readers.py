"""Laws of files made elsewhere: any bytes are rows or one line, and what is written replaces no other file."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refused import refusal
from training_fixtures import rows

from wordle_rl.config.base import ConfigError
from wordle_rl.data import trace_files
from wordle_rl.data.readers import OddRowError, game_of, read_row, read_rows
from wordle_rl.data.trace_files import read_games
from wordle_rl.game import Rules
from wordle_rl.prompt import Prompter
from wordle_rl.runs import RunError, write_jsonl
from wordle_rl.train.starts_file import read_start_boards
from wordle_rl.words.split import split_secrets


def row(secret: str) -> dict[str, object]:
    return {"secret": secret, "past_guess_history": []}


@pytest.fixture
def convert(cli, word_directory, tmp_path: Path):
    """Convert `data.jsonl`; exit code, output, errors."""
    given = ("--words", word_directory, "--rows", "grpo")
    return lambda out: cli("dataset", tmp_path / "data.jsonl", "--out", out, *given)


def test_without_a_usable_row_nothing_is_written(convert, split, tmp_path: Path) -> None:
    path, out = tmp_path / "data.jsonl", tmp_path / "out.jsonl"
    for odd in ([], [row(split.test[0])] * 2):
        write_jsonl(path, odd)
        code, printed, err = convert(out)
        assert (code, printed, err.count("\n")) == (2, "", 1)
        assert str(path) in err
        assert [*tmp_path.iterdir()] == [path]
    earlier = json.dumps({"secret": "crane", "turns": []})
    out.write_text(earlier)
    assert convert(out)[0] == 2
    assert out.read_text() == earlier, "earlier rows stay"


@pytest.mark.parametrize("spelling", ["below/../data.jsonl", "link.jsonl"])
def test_the_file_that_is_read_is_never_written(spelling: str, convert, split, tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    write_jsonl(path, [row(split.train[0])])
    (tmp_path / "below").mkdir()
    (tmp_path / "link.jsonl").symlink_to(path)
    before = path.read_text()
    code, out, err = convert(tmp_path / spelling)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert path.read_text() == before
    assert (tmp_path / "link.jsonl").is_symlink()


@pytest.mark.parametrize(
    "content", [b"dear diary\n", b'{"secret":"crane","turns":[{"guess":"slate"}]}\n', b"\xff\xfe\x00", b"\n"]
)
def test_rows_replace_earlier_rows_and_nothing_else(content: bytes, convert, split, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    write_jsonl(tmp_path / "data.jsonl", [row(split.train[0])])
    out.write_bytes(content)
    code, _, err = convert(out)
    assert (code, err.count("\n")) == (2, 1)
    assert str(out) in err
    assert out.read_bytes() == content
    out.write_bytes(b"")
    assert [convert(out)[0] for _ in range(2)] == [0, 0]
    assert rows(out) == [{"secret": split.train[0], "turns": []}]


PIECES = [
    b"secret,past_guess_history\n", b"instruction,output\n", b'crane,"[]"\n', b"[" * 3000, b'"', b",", b"\n", b"\r",
    b"\x00", b"\xff", b'{"secret":"crane","past_guess_history":"[[[["}\n', b'{"secret":', b"[" * 5000, b"\xef\xbb\xbf",
    b"PAR1", b'{"instruction":"a","output":"<guess>crane</guess>"}\n', b"1" * 6000,
    b'{"secret":"crane","past_guess_history":1}\n', b'{"secret":"crane","past_guess_history":[["crane","GGGGG"]]}\n',
    b"\xe2\x80\xa8", b"crane,('" + b"(" * 900 + b"\n",
]  # fmt: skip
CONTENT = st.one_of(st.lists(st.sampled_from(PIECES), max_size=8).map(b"".join), st.binary(max_size=80))
SUFFIXES = st.sampled_from([".csv", ".jsonl", ".parquet"])


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=CONTENT, suffix=SUFFIXES, form=st.sampled_from(["grpo", "instruction"]))
def test_any_bytes_are_rows_or_one_line(content: bytes, suffix: str, form: str, small_words, tmp_path: Path) -> None:
    path, split = tmp_path / f"data{suffix}", split_secrets(small_words)
    path.write_bytes(content)

    def game(row: dict | None) -> None:
        with suppress(OddRowError):
            game_of(read_row(row), small_words, Prompter())

    read = {
        "grpo": lambda: read_start_boards(path, small_words, split, Rules(), outside=True),
        "instruction": lambda: [game(row) for row in read_rows(path)],
    }
    if told := refusal(read[form], ConfigError, RunError):
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
