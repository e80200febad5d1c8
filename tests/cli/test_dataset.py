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
    """A command about the games; exit code, output, errors."""
    return lambda name, *arguments: cli(name, games, "--words", word_directory, *arguments)


OTHER_FILES = {
    "text": b"dear diary\n",
    "binary": b"\xff\xfe\x00",
    "an empty line": b"\n",
    "rows of something else": b'{"secret":"crane","split":"train","won":true}\n',
    "nested too deeply": b"[" * 100_000,
}


def test_a_table_of_words_is_never_written_over_its_games(call, games: Path) -> None:
    before = games.read_bytes()
    code, _, err = call("dataset", "--csv", games)
    assert (code, err.count("\n")) == (2, 1)
    assert games.read_bytes() == before


@pytest.mark.parametrize("name", ["sft_val", "rl_train", "rl_start_states"])
@pytest.mark.parametrize("kind", OTHER_FILES)
def test_rows_replace_earlier_ones_of_their_kind_and_nothing_else(name: str, kind: str, call, tmp_path: Path) -> None:
    path = tmp_path / f"set_{name}.jsonl"
    path.write_bytes(OTHER_FILES[kind])
    code, out, err = call("dataset", "--out", tmp_path / "set")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert str(path) in err
    assert path.read_bytes() == OTHER_FILES[kind]
    assert {p.name for p in tmp_path.glob("set_*")} == {path.name}, "nothing is written beside it"
    path.unlink()
    assert [call("dataset", "--out", tmp_path / "set")[0] for _ in range(2)] == [0, 0]
    assert len(rows(tmp_path / "set_sft_train.jsonl")) == 2


def test_a_bound_on_the_guesses_leaves_out_games_and_rewrites_no_prompt(call, tmp_path: Path) -> None:
    assert call("dataset", "--out", tmp_path / "all")[0] == 0
    code, out, _ = call("dataset", "--out", tmp_path / "short", "--max-turns", 1, "--json")
    assert (code, json.loads(out)["rejected"]) == (0, {"too_many_turns": 1})
    kept, everything = (rows(tmp_path / f"{name}_sft_train.jsonl") for name in ("short", "all"))
    assert kept == everything[:1]
    for name in ("rl_train", "rl_val"):
        assert rows(tmp_path / f"short_{name}.jsonl") == rows(tmp_path / f"all_{name}.jsonl")
    assert "in at most 6 guesses" in kept[0]["messages"][0]["content"]


def test_prompts_state_how_many_guesses_the_rules_allowed(call, games: Path, tmp_path: Path) -> None:
    def prompt(*arguments: object) -> str:
        assert call("dataset", "--out", tmp_path / "set", *arguments)[0] == 0
        return rows(tmp_path / "set_sft_train.jsonl")[0]["messages"][0]["content"]

    record = SettingsFile(games)
    record.keep("m", {"game.max_turns": 8})
    assert "in at most 8 guesses" in prompt()
    assert "in at most 8 guesses" in prompt("--max-turns", 2)
    assert "in at most 9 guesses" in prompt("--game-turns", 9)
    record.keep("n", {"game.max_turns": 7})
    code, _, err = call("dataset", "--out", tmp_path / "set")
    assert (code, err.count("\n")) == (2, 1)
    assert "records games of 7 or 8 guesses; choose what the prompts state with --game-turns" in err
    assert "in at most 7 guesses" in prompt("--game-turns", 7)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (("--max-turns", 7), "--max-turns 7"),
        (("--max-turns", 5, "--game-turns", 4), "--max-turns 5"),
        (("--game-turns", 0), "--game-turns"),
    ],
)
def test_a_bound_on_the_guesses_fits_the_games(given: tuple, named: str, call, tmp_path: Path) -> None:
    code, out, err = call("dataset", "--out", tmp_path / "set", *given)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert named in err


@pytest.mark.parametrize(
    ("player", "most", "named"), [("foo", 2, "--starts-player: "), ("teacher", -1, "--max-prefix-")]
)
def test_a_wrong_option_of_start_states_is_named(player, most, named, call, tmp_path: Path) -> None:
    options = ("--out", tmp_path / "rows", "--starts-player", player, "--max-prefix-guesses", most)
    code, _, err = call("dataset", *options)
    assert code == 2
    assert named in err
