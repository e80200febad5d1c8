"""Laws of bought games as CSV: what is written reads back the same."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from wordle_rl.data.game_record import GameRecord, TurnRecord
from wordle_rl.data.trace_files import COLUMNS, read_games, write_csv_files
from wordle_rl.game import Outcome, score_guess
from wordle_rl.runs import RunError, write_jsonl


def game(secret: str, seed: int = 0, *guesses: str, model: str = "m", error: str | None = None) -> GameRecord:
    turns = [TurnRecord(g, score_guess(secret, g), thinking=f"say\n{g},", reply=f'"{g}"') for g in guesses]
    return GameRecord(secret, tuple(turns), model, seed, error)


BROKEN = TurnRecord(None, None, False, outcome=Outcome.MALFORMED, reply="é, 🟩\nno", finish="length", costs_turn=False)
GAMES = [
    replace(game("crane", 0, "crane"), turns=(BROKEN, *game("crane", 0, "crane").turns)),
    replace(game("crane", 1, "crate", "crane"), prompt_tokens=200, completion_tokens=31),
    game("crane", 0, "crate", model="other/model"),
    game("abbey", 0, "crane"),
]


def written(path: Path, games: list[GameRecord]) -> None:
    write_jsonl(path, (one.to_row() for one in games))


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


def test_games_of_the_same_seed_are_told_apart_in_a_csv(tmp_path: Path) -> None:
    twins = [GAMES[1], game("crane", 1, "abbey", "crane")]
    written(tmp_path / "t.jsonl", twins)
    write_csv_files(tmp_path / "t.jsonl", tmp_path)
    assert [trace.turns for trace in read_games(tmp_path)] == [trace.turns for trace in twins]


def test_a_csv_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    written(tmp_path / "t.jsonl", GAMES[1:2])
    write_csv_files(tmp_path / "t.jsonl", tmp_path)
    file = tmp_path / "wordle_data_CRANE.csv"
    file.write_text(file.read_text(), encoding="utf-8-sig")
    assert list(read_games(tmp_path)) == GAMES[1:2]


def test_csv_files_without_tokens_are_read_and_their_tokens_are_unknown(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    written(path, GAMES[1:2])
    write_csv_files(path, tmp_path)
    file = tmp_path / "wordle_data_CRANE.csv"
    text = file.read_text().replace(',"prompt_tokens","completion_tokens"', "").replace(',"200","31"', "")
    file.write_text(text)
    assert list(read_games(tmp_path)) == [replace(GAMES[1], prompt_tokens=0, completion_tokens=0)]


@pytest.mark.parametrize(
    "change",
    [("outcome", "odd"), ('"seed","model"', '"seed","teacher"'), (',"0","m",', ',"zero","m",'), ("wordle_data", None)],
)
def test_csv_files_of_another_kind_are_named(change, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    written(path, GAMES[3:])
    write_csv_files(path, tmp_path)
    file = tmp_path / "wordle_data_ABBEY.csv"
    if change[1] is None:
        file.unlink()
    else:
        file.write_text(file.read_text().replace(*change))
    with pytest.raises(RunError, match="wordle_data_"):
        list(read_games(tmp_path))


@pytest.mark.usefixtures("long_of_32_bits")
def test_a_reply_of_any_length_is_read_where_a_long_has_32_bits(tmp_path: Path) -> None:
    long = replace(GAMES[1], turns=(replace(GAMES[1].turns[0], reply="x" * 200_000), GAMES[1].turns[1]))
    written(tmp_path / "t.jsonl", [long])
    write_csv_files(tmp_path / "t.jsonl", tmp_path)
    assert list(read_games(tmp_path)) == [long]
