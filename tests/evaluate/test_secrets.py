"""Laws of `eval --secrets`, and of boards with earlier turns, which never hold the secret."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from scripted import ANSWERS, WORDS, asked_of, opened

from wordle_rl.boards import InitialState
from wordle_rl.config.base import ConfigError
from wordle_rl.evaluate import eval_secrets
from wordle_rl.evaluate.eval_secrets import by_earlier_turns, marked, named_secrets, prefix_boards
from wordle_rl.evaluate.journal import evaluate_to_file
from wordle_rl.evaluate.records import Evaluation
from wordle_rl.game import score_guess
from wordle_rl.policy.scripted import SolverSampler
from wordle_rl.prompt import Prompter
from wordle_rl.solver import Solver
from wordle_rl.words.split import split_secrets

SOLVER = Solver(WORDS)
SPLIT = split_secrets(WORDS, val_size=2, test_size=4)


def test_a_file_of_words_is_read_by_its_first_column_in_its_order(tmp_path: Path) -> None:
    path = tmp_path / "words.csv"
    path.write_text('word,clue\nSpeed,a\n"crane",b\nspeed,c\nfuzzy\nzzzzz\n\nfour\n', encoding="utf-8")
    found = named_secrets(str(path), WORDS, 0, 0)
    assert found.words == ("speed", "crane", "fuzzy")
    assert {"2", "1"} <= set(found.left_out.split()), "two lines are no words of five letters, one is not listed"
    assert named_secrets(str(path), WORDS, 2, 0).words == ("speed", "crane")
    path.write_text("zzzzz\n")
    with pytest.raises(ConfigError, match=r"words\.csv"):
        named_secrets(str(path), WORDS, 0, 0)


def test_words_are_marked_by_what_training_knew_of_them() -> None:
    train, val, test = SPLIT.train[:1], SPLIT.val[:1], SPLIT.test[:1]
    found = marked(["fuzzy", *test, *train, *val, *train], SPLIT)
    assert found == {"train": [*train], "val": [*val], "held_out": [*test], "outside": ["fuzzy"]}


@pytest.fixture
def evaluated(cli, word_directory: Path):
    """`wordle-rl eval --json` of games of the solver."""

    def run(*more: object) -> dict:
        command = ("eval", "--player", "solver", "--words", word_directory, "--no-regret", "--json")
        code, out, err = cli(*command, *more)
        assert code == 0, err
        return json.loads(out)

    return run


def test_a_public_list_has_a_column_for_the_words_of_training(evaluated, word_directory: Path) -> None:
    path = word_directory / "answers.txt"
    listed = path.read_text().split()
    found = evaluated("--secrets", path)
    parts = found["parts"]
    assert set(parts) == {"train", "val", "held_out", str(path)}
    assert sum(parts[name]["num_games"] for name in ("train", "val", "held_out")) == len(listed)
    assert found["num_games"] == len(listed)


def test_boards_with_earlier_turns_have_figures_by_their_number_and_a_name(evaluated, tmp_path: Path) -> None:
    found = evaluated("--split", "all", "--prefix-turns", 3, "--out", tmp_path / "x.json")
    by_turns = found["by_earlier_turns"]
    assert {"0"} < set(by_turns) <= {"0", "1", "2", "3"}
    assert sum(part["num_games"] for part in by_turns.values()) == found["num_games"]
    stored = Evaluation.load(tmp_path / "x.json")
    assert stored.conditions.boards == "0 to 3 consistent turns, seed 0"
    assert {record.num_prefix for record in stored.records} == {int(count) for count in by_turns}


@pytest.mark.parametrize("seed", [0, 3])
def test_boards_hold_consistent_guesses_no_word_twice_and_no_secret(seed: int) -> None:
    secrets = ANSWERS * 20
    boards = prefix_boards(secrets, SOLVER, 4, seed=seed)
    for secret, board in zip(secrets, boards, strict=True):
        assert secret not in board
        assert len(set(board)) == len(board) <= 4
        for place, word in enumerate(board):
            assert all(score_guess(word, earlier) == score_guess(secret, earlier) for earlier in board[:place])
    assert {len(board) for board in boards} >= {0, 1, 2}


def test_a_board_depends_on_seed_secret_and_occurrence_alone() -> None:
    forward = prefix_boards(ANSWERS, SOLVER, 3, seed=1)
    backward = prefix_boards(ANSWERS[::-1], SOLVER, 3, seed=1)
    assert forward == backward[::-1]
    assert forward != prefix_boards(ANSWERS, SOLVER, 3, seed=2)
    twice = prefix_boards(["crane"] * 12, SOLVER, 3, seed=1)
    assert len(set(twice)) > 1


def test_earlier_turns_are_on_the_board_and_in_no_rate_of_the_player() -> None:
    asked = replace(asked_of(WORDS, ["crane"]), starts=[InitialState("crane", ("lymph", "lymph"))])
    played = evaluate_to_file(asked, opened(SolverSampler(SOLVER, Prompter(), 0)), None, None)
    [record] = played.records
    assert (record.num_prefix, [turn.guess for turn in record.turns[:2]]) == (2, ["lymph", "lymph"])
    assert record.turns_used == len(record.turns) > 2
    figures = played.figures()
    assert figures.repeated_rate == 0.0, "the repeat was given"
    assert figures.num_turns == len(record.turns) - 2
    assert [*by_earlier_turns(played.records)] == [2]


@pytest.mark.parametrize("part", ["train", "val", "held_out"])
def test_a_limit_takes_the_first_secrets_of_a_part(part: str) -> None:
    """So that a larger limit plays the same secrets and more, and all players meet the same ones."""
    split = split_secrets(WORDS)
    first, all_of_them = (eval_secrets.split_secrets(part, split, limit) for limit in (1, 0))
    assert first.words == split.named(part)[:1]
    assert all_of_them.words == split.named(part)
