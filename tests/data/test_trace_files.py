"""Laws of bought games as CSV: what is written reads back the same."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from wordle_rl.data.game_record import GameNotes, GameRecord, TurnNotes, TurnRecord
from wordle_rl.data.trace_files import COLUMNS, read_games, write_csv_files
from wordle_rl.game import Outcome, score_guess
from wordle_rl.runs import write_jsonl


def game(secret: str, seed: int = 0, *guesses: str, model: str = "m", error: str | None = None) -> GameRecord:
    turns = [TurnRecord(g, score_guess(secret, g), thinking=f"say\n{g},", reply=f'"{g}"') for g in guesses]
    return GameRecord(secret, tuple(turns), error, notes=GameNotes(model, seed))


BROKEN = TurnRecord(
    None, None, False, outcome=Outcome.MALFORMED, reply="é, 🟩\nno", costs_turn=False, notes=TurnNotes(finish="length")
)
GAMES = [
    replace(game("crane", 0, "crane"), turns=(BROKEN, *game("crane", 0, "crane").turns)),
    replace(game("crane", 1, "crate", "crane"), notes=GameNotes("m", 1, 200, 31)),
    game("crane", 0, "crate", model="other/model"),
    game("abbey", 0, "crane"),
]


def test_csv_files_hold_one_word_each_and_read_back_the_same(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    failed = [game("civic", 0, error="down"), game("crane", 7, "crate", error="down")]
    write_jsonl(path, (one.to_row() for one in [*GAMES, *failed]))
    assert write_csv_files(path, tmp_path / "csv") == 2
    assert sorted(p.name for p in (tmp_path / "csv").iterdir()) == ["wordle_data_ABBEY.csv", "wordle_data_CRANE.csv"]
    with (tmp_path / "csv" / "wordle_data_CRANE.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    found = [(r["model"], r["seed"], r["turn"], r["won"]) for r in rows]
    won = [("m", seed, turn, "1") for seed in "01" for turn in "12"]
    assert found == [*won, ("other/model", "0", "1", "0")]
    assert sorted(read_games(tmp_path / "csv"), key=lambda g: g.key) == sorted(GAMES, key=lambda g: g.key)


@pytest.mark.parametrize("reply", ["a\rb", "\r", "a\r\nb", "\n", '"', '",', " a ", "", "=1+1", "'=1+1", "-1"])
def test_a_reply_of_any_characters_reads_back_the_same(reply: str, tmp_path: Path) -> None:
    odd = replace(GAMES[0], turns=(replace(BROKEN, reply=reply, thinking=reply), *GAMES[0].turns[1:]))
    write_jsonl(tmp_path / "t.jsonl", [odd.to_row()])
    write_csv_files(tmp_path / "t.jsonl", tmp_path)
    assert list(read_games(tmp_path)) == [odd]
