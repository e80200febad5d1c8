"""Laws of bought games on disk: appended whole, repaired after a crash, and the same again as CSV."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from wordle_rl.data.trace import Trace, TraceTurn, read_traces
from wordle_rl.data.trace_files import COLUMNS, TraceFile, read_games, write_csv_files
from wordle_rl.game import Outcome, score_guess
from wordle_rl.runs import RunError


def game(secret: str, seed: int = 0, *guesses: str, model: str = "m", error: str | None = None) -> Trace:
    turns = [TraceTurn(g, score_guess(secret, g), thinking=f"say\n{g},", reply=f'"{g}"') for g in guesses]
    return Trace(secret, tuple(turns), model, seed, error)


BROKEN = TraceTurn("", "", False, outcome=Outcome.MALFORMED, reply="é, 🟩\nno", finish="length", costs_turn=False)
GAMES = [
    replace(game("crane", 0, "crane"), turns=(BROKEN, *game("crane", 0, "crane").turns)),
    replace(game("crane", 1, "crate", "crane"), prompt_tokens=200, completion_tokens=31),
    game("crane", 0, "crate", model="other/model"),
    game("abbey", 0, "crane"),
]


def written(path: Path, games: list[Trace]) -> TraceFile:
    file = TraceFile(path)
    for one in games:
        file.append(one)
    return file


def test_what_was_appended_is_there_and_known_as_finished(tmp_path: Path) -> None:
    failed = game("civic", 0, "crane", error="down")
    file = written(tmp_path / "new" / "t.jsonl", [*GAMES, failed])
    again = TraceFile(file.path)
    assert list(read_traces(file.path)) == [*GAMES, failed]
    assert again.finished == file.finished == {one.key for one in GAMES}
    assert not again.repaired


def test_a_half_written_line_is_cut_at_any_byte(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    written(path, GAMES[:2])
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for cut in (*range(first, len(whole) - 1, 9), len(whole) - 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        file = TraceFile(path)
        kept = 2 if cut == len(whole) - 1 else 1  # all but the line break: the game is whole
        assert file.repaired == (first < cut < len(whole) - 1)
        assert list(read_traces(path)) == GAMES[:kept]
        file.append(GAMES[1])
        assert list(read_traces(path))[kept:] == GAMES[1:2]


def test_a_last_line_longer_than_one_read_is_cut_whole(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    written(path, GAMES[:1])
    long = replace(GAMES[1], turns=(replace(GAMES[1].turns[0], reply="x" * 200_000),))
    with path.open("a") as file:
        file.write(json.dumps(long.to_row(), separators=(",", ":"))[:-1])
    assert TraceFile(path).repaired
    assert list(read_traces(path)) == GAMES[:1]


@pytest.mark.parametrize("text", ["dear diary", "1,2\n3,4", '{"sec\n', '{"other": 1}\n', '{"secret"'[:4] + "x"])
def test_a_file_that_is_no_traces_file_is_left_as_it_is(text: str, tmp_path: Path) -> None:
    path = tmp_path / "mine"
    path.write_text(text)
    with pytest.raises(RunError, match="mine"):
        TraceFile(path)
    assert path.read_text() == text


def test_csv_files_hold_one_word_each_and_read_back_the_same(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    written(path, [*GAMES, game("civic", 0, error="down"), game("crane", 7, "crate", error="down")])
    assert write_csv_files(path, tmp_path / "csv") == 2
    assert sorted(p.name for p in (tmp_path / "csv").iterdir()) == ["wordle_data_ABBEY.csv", "wordle_data_CRANE.csv"]
    with (tmp_path / "csv" / "wordle_data_CRANE.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert [(r["model"], r["seed"], r["turn"], r["won"]) for r in rows] == [
        ("m", "0", "1", "1"),
        ("m", "0", "2", "1"),
        ("m", "1", "1", "1"),
        ("m", "1", "2", "1"),
        ("other/model", "0", "1", "0"),
    ]
    assert sorted(read_games(tmp_path / "csv"), key=lambda g: g.key) == sorted(GAMES, key=lambda g: g.key)


@pytest.mark.parametrize("reply", ["a\rb", "\r", "a\r\nb", "\n", '"', '",', " a ", ""])
def test_a_reply_of_any_characters_reads_back_the_same(reply: str, tmp_path: Path) -> None:
    odd = replace(GAMES[0], turns=(replace(BROKEN, reply=reply, thinking=reply), *GAMES[0].turns[1:]))
    written(tmp_path / "t.jsonl", [odd])
    write_csv_files(tmp_path / "t.jsonl", tmp_path)
    assert list(read_games(tmp_path)) == [odd]
