"""Laws of reading rows: every kind of file, the first N, and data sets of a hub by name."""

import json
from functools import partial
from pathlib import Path

import pytest
from fake_hub import open_hub

from wordle_rl.boards import InitialState
from wordle_rl.config.base import ConfigError
from wordle_rl.config.model import GameSettings
from wordle_rl.config.teachers import TraceSettings
from wordle_rl.data.dataset import TracesFromFile
from wordle_rl.data.readers import read_rows
from wordle_rl.game import Rules
from wordle_rl.train.starts_file import read_start_boards
from wordle_rl.words.split import split_secrets

hub = pytest.importorskip("huggingface_hub")


ROWS = [{"prompt": f"p{number}", "answer": word} for number, word in enumerate(("crane", "slate", "abide"))]
TEXT = "\n".join(map(json.dumps, ROWS))


@pytest.fixture
def data_sets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A hub with two data sets; huggingface_hub asks it, with a cache of its own."""
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
