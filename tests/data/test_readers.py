"""Laws of files made elsewhere: every kind has rows, any bytes are rows or one line, and no other file is replaced."""

import json
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from fake_hub import open_hub
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refused import refusal
from training_fixtures import rows

from wordle_rl.boards import InitialState
from wordle_rl.config.base import ConfigError
from wordle_rl.config.model import GameSettings
from wordle_rl.config.teachers import TraceSettings
from wordle_rl.data import trace_files
from wordle_rl.data.dataset import TracesFromFile
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


ROWS = [{"prompt": f"p{number}", "answer": word} for number, word in enumerate(("crane", "slate", "abide"))]
TEXT = "\n".join(map(json.dumps, ROWS))


@pytest.fixture
def data_sets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A hub with two data sets; huggingface_hub asks it, with a cache of its own."""
    hub = pytest.importorskip("huggingface_hub")
    whole = {
        "README.md": b"# rows",
        "data/train-00000-of-00002.jsonl": json.dumps(ROWS[0]).encode(),
        "data/train-00001-of-00002.jsonl": json.dumps(ROWS[1]).encode(),
        "data/test-00000-of-00001.jsonl": json.dumps(ROWS[2]).encode(),
    }
    with open_hub() as opened:
        opened.repos |= {"me/wordle-rows": whole, "me/one-file": {"rows.csv": b"prompt,answer\np0,crane\n"}}
        monkeypatch.setattr("huggingface_hub.HfApi", partial(hub.HfApi, endpoint=opened.url))
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
        yield opened


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("rows.jsonl", TEXT + "\n\nno row\n[1]\n", [*ROWS, None, None]),
        ("rows.json", json.dumps(ROWS), ROWS),
        ("words.json", '["crane", "slate", 7]', [{"word": "crane"}, {"word": "slate"}, None]),
        ("words.txt", "crane\n\n slate \n", [{"word": "crane"}, {"word": "slate"}]),
        ("rows.csv", "prompt,answer\np0,crane\np1,slate\np2,abide\n", ROWS),
    ],
)
def test_every_kind_of_file_has_rows(name: str, text: str, expected: list, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    assert [*read_rows(tmp_path / name)] == expected
    assert [*read_rows(f"{tmp_path / name}[:2]")] == expected[:2]


@pytest.mark.parametrize(
    ("name", "text"), [("rows.jsonl", None), ("rows.xls", "x"), ("rows.json", "{}"), ("rows.json", "{")]
)
def test_a_file_that_cannot_be_read_is_named(name: str, text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=name):
        [*read_rows(tmp_path / name)]


def test_a_data_set_is_read_by_name_split_and_number(data_sets) -> None:
    assert [*read_rows("me/wordle-rows")] == ROWS[:2]
    assert [*read_rows(Path("me/wordle-rows:train[:1]"))] == ROWS[:1]
    assert [*read_rows("me/wordle-rows:test")] == ROWS[2:]
    assert [*read_rows("me/one-file")] == ROWS[:1]


@pytest.mark.parametrize(
    ("name", "named"), [("me/nothing", "me/nothing"), ("me/wordle-rows:dev", "'dev'"), ("me/one-file:test", "'test'")]
)
def test_a_data_set_that_is_not_there_is_named(name: str, named: str, data_sets) -> None:
    with pytest.raises(ConfigError, match=named):
        [*read_rows(name)]


def test_a_run_takes_secrets_and_conversations_from_a_data_set(data_sets, small_words) -> None:
    split = split_secrets(small_words)
    a, b = split.train[:2]
    files = data_sets.repos["me/wordle-rows"]
    files["data/train-00000-of-00002.jsonl"] = json.dumps({"prompt": "p", "answer": a}).encode()
    files["data/train-00001-of-00002.jsonl"] = json.dumps({"word": b, "turns": [{"guess": a}]}).encode()
    files["data/test-00000-of-00001.jsonl"] = json.dumps({"instruction": "i", "output": f"<guess>{a}</guess>"}).encode()
    found = read_start_boards(Path("me/wordle-rows"), small_words, split, Rules(), outside=False)
    assert found.starts == (InitialState(a), InitialState(b, (a,)))
    assert read_start_boards(Path("me/wordle-rows[:1]"), small_words, split, Rules(), outside=False).secrets == (a,)
    settings = TraceSettings(file=Path("me/wordle-rows:test"))
    assert [game.secret for game in TracesFromFile(small_words, split, settings, GameSettings())] == [a]
