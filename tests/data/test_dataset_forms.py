"""Laws of a data set's forms: instructions that read back, the solver's validation rows, boards by a player."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from training_fixtures import rows

from wordle_rl.data.dataset import instruction_rows
from wordle_rl.data.readers import game_of, read_row
from wordle_rl.game import Outcome, Turn, violates_clues
from wordle_rl.prompt import Prompter
from wordle_rl.words import load_words
from wordle_rl.words.split import split_secrets


@pytest.fixture
def made(cli, word_directory, tmp_path: Path):
    """Make a data set of sixty solver games; what the command printed as JSON, and its stem."""
    traces, stem = tmp_path / "traces.jsonl", tmp_path / "set"
    common = ("--words", word_directory)
    play = ("--num-games", 60, "--outside-rate", 0, "--narrate", "--teacher.noise-rate", 0.2)
    assert cli("traces", "--out", traces, *play, *common)[0] == 0

    def run(*options: object) -> tuple[dict, Path]:
        code, out, err = cli("dataset", traces, "--out", stem, *common, *options, "--json")
        assert (code, err) == (0, "")
        return json.loads(out), stem

    return run


def file_of(stem: Path, name: str) -> list[dict]:
    return rows(stem.with_name(f"{stem.name}_{name}.jsonl"))


def stripped(talk: Iterable[dict[str, str]]) -> list[tuple[str, str]]:
    return [(message["role"], message["content"].strip()) for message in talk]


def test_the_solver_plays_the_validation_secrets_for_rows_of_their_own(made, word_directory) -> None:
    split = split_secrets(load_words(str(word_directory)))
    counts, stem = made()
    found = file_of(stem, "sft_val")
    assert 0 < counts["rows"]["sft_val"] == len(found) <= len(split.val)
    last = {row["messages"][-1]["content"].partition("<guess>")[2].removesuffix("</guess>") for row in found}
    assert last <= {*split.val}
    assert all("<think>" in row["messages"][-1]["content"] for row in found), "narrated as the training games are"


def test_an_instruction_row_is_one_reply_and_reads_back_as_its_conversation(made) -> None:
    _, stem = made()
    talks = [row["messages"] for row in file_of(stem, "sft_train")]
    counts, stem = made("--format", "instruction")
    found = file_of(stem, "sft_train")
    assert all(row.keys() == {"instruction", "output", "secret"} for row in found)
    replies = [m["content"] for talk in talks for m in talk if m["role"] == "assistant"]
    assert [row["output"] for row in found] == [f"{reply}<|im_end|>" for reply in replies]
    read_back = [read_row([*instruction_rows(talk)][-1]).messages for talk in talks]
    assert [*map(stripped, read_back)] == [*map(stripped, talks)]
    assert counts["rows"]["sft_train"] == len(replies)
    assert made()[0]["rows"]["sft_train"] == len(talks), "one form replaces the other"


def test_an_instruction_row_of_any_turn_is_read_as_of_its_games_secret(made, word_directory) -> None:
    words = load_words(str(word_directory))
    _, stem = made("--format", "instruction")
    read = [game_of(read_row(row), words, Prompter()) for row in file_of(stem, "sft_train")]
    assert {trace.secret for trace in read} <= {*split_secrets(words).train}
    assert any(trace.turns[-1].guess not in split_secrets(words).train for trace in read), "guessed on the way"


@pytest.mark.parametrize("player", ["consistent:3", "teacher"])
def test_start_states_may_be_drawn_by_a_player(player: str, made, word_directory) -> None:
    words = load_words(str(word_directory))
    _, stem = made("--starts-player", player, "--max-prefix-guesses", 2)
    found = file_of(stem, "rl_start_states")
    assert [row["secret"] for row in found] == [*split_secrets(words).train]
    assert {len(row["turns"]) for row in found} == {0, 1, 2}
    for row in found:
        board = [Turn(turn["guess"], turn["marks"], Outcome.SCORED) for turn in row["turns"]]
        assert row["secret"] not in [turn.guess for turn in board]
        assert not any(violates_clues(turn.guess, board[:place]) for place, turn in enumerate(board))
