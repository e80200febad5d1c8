"""Laws of `eval --secrets` and of the games it begins elsewhere than at the empty board, or by other rules."""

import json
from pathlib import Path

import pytest
from scripted_evaluations import WORDS

from wordle_rl.config import ConfigError
from wordle_rl.evaluate.eval_secrets import marked, named_secrets
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.words.split import split_secrets

SPLIT = split_secrets(WORDS, val_size=2, test_size=4)


def test_a_file_of_words_is_read_by_its_first_column_in_its_order(tmp_path: Path) -> None:
    path = tmp_path / "words.csv"
    path.write_text('word,clue\nSpeed,a\n"crane",b\nspeed,c\nfuzzy\nzzzzz\n\nfour\n', encoding="utf-8")
    found = named_secrets(str(path), WORDS, 0, 0)
    assert found.words == ("speed", "crane", "fuzzy")
    assert "2 lines that are no word of 5 letters" in found.left_out
    assert "1 words that list 'small' lacks" in found.left_out
    assert named_secrets(str(path), WORDS, 2, 0).words == ("speed", "crane")


def test_a_file_without_words_is_refused(tmp_path: Path) -> None:
    (tmp_path / "none.txt").write_text("zzzzz\n")
    with pytest.raises(ConfigError, match="names no word that may be played"):
        named_secrets(str(tmp_path / "none.txt"), WORDS, 0, 0)
    with pytest.raises(ConfigError, match="no file of words"):
        named_secrets(str(tmp_path / "nowhere.txt"), WORDS, 0, 0)


def test_words_are_marked_by_what_training_knew_of_them() -> None:
    words = ["fuzzy", SPLIT.test[0], SPLIT.train[0], SPLIT.val[0], SPLIT.train[0]]
    assert marked(words, SPLIT) == {
        "train": [SPLIT.train[0]], "val": [SPLIT.val[0]], "held_out": [SPLIT.test[0]], "outside": ["fuzzy"],
    }  # fmt: skip


@pytest.fixture
def evaluated(cli, word_directory: Path):
    """`wordle-rl eval --json` of a few games."""

    def run(*more: object, player: str = "solver") -> dict:
        command = ("eval", "--player", player, "--words", word_directory, "--no-regret", "--json")
        code, out, err = cli(*command, *more)
        assert code == 0, err
        return json.loads(out)

    return run


def test_a_public_list_has_a_column_for_the_words_of_training(evaluated, word_directory: Path, tmp_path) -> None:
    listed = (word_directory / "answers.txt").read_text().split()
    (tmp_path / "list.txt").write_text("\n".join(listed))
    found = evaluated("--secrets", tmp_path / "list.txt")
    parts = found["parts"]
    assert set(parts) == {"train", "val", "held_out", str(tmp_path / "list.txt")}
    assert sum(parts[name]["num_games"] for name in ("train", "val", "held_out")) == len(listed)
    assert found["num_games"] == len(listed)


def test_boards_with_earlier_turns_have_figures_by_their_number_and_a_name(evaluated, tmp_path: Path) -> None:
    found = evaluated("--split", "all", "--prefix-turns", 3, "--out", tmp_path / "x.json")
    by_turns = found["by_earlier_turns"]
    assert set(by_turns) <= {"0", "1", "2", "3"}
    assert len(by_turns) > 1
    assert sum(part["num_games"] for part in by_turns.values()) == found["num_games"]
    stored = Evaluation.load(tmp_path / "x.json")
    assert stored.conditions.boards == "0 to 3 consistent turns, seed 0"
    assert {record.num_prefix for record in stored.records} == {int(count) for count in by_turns}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--hard-mode",), "the solver does not keep to hard mode"),
        (("--secrets", "nowhere.txt"), "no file of words"),
        (("--dtype", "float32"), "--dtype float32"),
    ],
)
def test_what_cannot_be_followed_is_refused_in_one_line(options, named: str, cli, word_directory: Path) -> None:
    code, out, err = cli("eval", "--player", "solver", "--words", word_directory, *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert named in err
