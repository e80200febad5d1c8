"""Laws of `dataset`: no file of another kind is written over, and options mean what they say."""

import json
from pathlib import Path

import pytest
from training_fixtures import rows

from wordle_rl.data.game_record import GameRecord, TurnRecord
from wordle_rl.data.trace_files import SettingsFile
from wordle_rl.game import score_guess
from wordle_rl.runs import write_jsonl


@pytest.fixture
def games(split, tmp_path: Path) -> Path:
    """A traces file: a game of one guess, and one of two."""
    first, second = split.train[:2]
    boards = [(first, (first,)), (second, (first, second))]
    traces = [GameRecord(secret, tuple(TurnRecord(g, score_guess(secret, g)) for g in said)) for secret, said in boards]
    write_jsonl(tmp_path / "t.jsonl", (trace.to_row() for trace in traces))
    return tmp_path / "t.jsonl"


@pytest.fixture
def call(cli, games: Path, word_directory: Path):
    """`dataset` of the games; exit code, output, errors."""
    return lambda *arguments: cli("dataset", games, "--words", word_directory, *arguments)


OTHER_FILES = [
    b"dear diary\n",
    b"\xff\xfe\x00",
    b"\n",
    b'{"secret":"crane","split":"train","won":true}\n',  # rows of something else
    pytest.param(b"[" * 100_000, id="nested too deeply"),
]


@pytest.mark.parametrize("content", OTHER_FILES)
@pytest.mark.parametrize("name", ["sft_val", "rl_train", "rl_start_states"])
def test_rows_replace_earlier_ones_of_their_kind_and_nothing_else(name, content: bytes, call, tmp_path: Path) -> None:
    path = tmp_path / f"set_{name}.jsonl"
    path.write_bytes(content)
    code, out, err = call("--out", tmp_path / "set")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert str(path) in err
    assert path.read_bytes() == content
    assert list(tmp_path.glob("set_*")) == [path], "nothing is written beside it"
    path.unlink()
    assert [call("--out", tmp_path / "set")[0] for _ in range(2)] == [0, 0]
    assert len(rows(tmp_path / "set_sft_train.jsonl")) == 2


def test_a_bound_on_the_guesses_leaves_out_games_and_rewrites_no_prompt(call, tmp_path: Path) -> None:
    assert call("--out", tmp_path / "all")[0] == 0
    code, out, _ = call("--out", tmp_path / "short", "--max-turns", 1, "--json")
    assert (code, json.loads(out)["rejected"]) == (0, {"too_many_turns": 1})
    kept, everything = (rows(tmp_path / f"{name}_sft_train.jsonl") for name in ("short", "all"))
    assert kept == everything[:1]
    for name in ("rl_train", "rl_val"):
        assert rows(tmp_path / f"short_{name}.jsonl") == rows(tmp_path / f"all_{name}.jsonl")


def test_prompts_state_how_many_guesses_the_rules_allowed(call, games: Path, tmp_path: Path) -> None:
    def states(guesses: int, *arguments: object) -> bool:
        assert call("--out", tmp_path / "set", *arguments)[0] == 0
        return f" {guesses} guesses" in rows(tmp_path / "set_sft_train.jsonl")[0]["messages"][0]["content"]

    assert states(6, "--max-turns", 1)
    record = SettingsFile(games)
    record.keep("m", {"game.max_turns": 8})
    assert states(8)
    assert states(8, "--max-turns", 2)
    assert states(9, "--game-turns", 9)
    record.keep("n", {"game.max_turns": 7})
    code, _, err = call("--out", tmp_path / "set")
    assert code == 2
    assert "--game-turns" in err
    assert states(7, "--game-turns", 7)


@pytest.mark.parametrize(("options", "left", "told"), [((), 4, (2, 0)), (("--drop-duplicates",), 2, (0, 2))])
def test_games_that_came_before_are_counted_and_left_out_on_request(options, left, told, call, games, tmp_path) -> None:
    games.write_text(games.read_text() * 2)
    code, out, _ = call("--out", tmp_path / "set", "--json", *options)
    found = json.loads(out)
    assert (code, len(rows(tmp_path / "set_sft_train.jsonl"))) == (0, left)
    assert (found["duplicates"], found["rejected"].get("duplicate", 0)) == told
    assert json.loads(call("--json")[1])["num_duplicates"] == 2
    assert call("--drop-duplicates")[0] == 2
