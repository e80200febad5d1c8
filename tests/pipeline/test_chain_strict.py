"""Laws of strict words: nothing that a model learns from names one, in any stage, and the audit proves it of a run."""

import io
import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch")

from rich.console import Console
from training_fixtures import begun, compact, rows, write_config

from wordle_rl.cli import main
from wordle_rl.config import RunConfig, load_config
from wordle_rl.config.context import GameContext
from wordle_rl.game import Rules, score_guess
from wordle_rl.pipeline import Pipeline
from wordle_rl.runs import append_jsonl, write_jsonl
from wordle_rl.runs.lineage import audit
from wordle_rl.solver import Solver
from wordle_rl.train.starts_file import read_start_boards
from wordle_rl.words import WordList
from wordle_rl.words.split import Split, split_secrets, words_of_text

QUIET = Console(quiet=True)
FRACTION = 0.05
RECORDS = ("traces.jsonl", "validation_traces.jsonl", "labels.jsonl", "boards.jsonl", "secrets.jsonl")


@pytest.fixture(scope="module")
def strict_split(sixty) -> Split:
    found = split_secrets(sixty, strict_fraction=FRACTION)
    assert len(found.strict) == 3
    return found


def contexts(sixty: WordList, split: Split) -> tuple[GameContext, GameContext]:
    """The whole context, and that of training."""
    whole = GameContext(sixty, split, compact(), Solver(sixty))
    return whole, whole.for_training


def test_in_training_a_strict_word_may_be_said_and_is_no_answer(sixty, strict_split) -> None:
    whole, training = contexts(sixty, strict_split)
    word = strict_split.strict[0]
    assert word in training.words, "the policy may say it without breaking a rule"
    assert word not in training.words.answer_index
    assert word not in training.words.outside
    assert word not in training.solver.words
    seen = [(guess, "XXXXX") for guess in ()]
    assert len(training.solver.candidates(seen)) == len(whole.solver.candidates(seen)) - 3


ROUNDS = {"rounds": "1", "groups_per_round": "6", "group_size": "4"}


def settings(path: Path, words: Path, algorithm: str) -> RunConfig:
    rounds = ("expert_iteration", "dpo", "distill")
    changes = {f"{name}__{key}": value for name in rounds for key, value in ROUNDS.items()}
    changes |= {
        "algorithm": json.dumps(algorithm),
        "words__strict_fraction": str(FRACTION),
        "traces__slip_rate": "0.3",
        "rl.starts__max_prefix_guesses": "2",
        "eval__also": '["constrained"]',
    }
    if algorithm == "grpo":
        changes |= {"grpo__outside_rate": "0.4", "grpo.reward__weights": "{ quick_regret = -1.0 }"}
    return load_config(write_config(path, words, **changes))


@pytest.fixture(scope="module")
def taught(word_directory, tmp_path_factory) -> Path:
    """A run up to SFT."""
    directory = tmp_path_factory.mktemp("strict") / "taught"
    config = settings(directory.with_suffix(".toml"), word_directory, "grpo")
    Pipeline(config, directory, QUIET)("sft")
    return directory


@pytest.mark.parametrize("algorithm", ["grpo", "expert_iteration", "dpo", "distill"])
def test_no_record_of_any_stage_names_a_strict_word(
    algorithm: str, taught: Path, word_directory, strict_split, tmp_path: Path
) -> None:
    config = settings(tmp_path / "run.toml", word_directory, algorithm)
    directory = begun(config, tmp_path / "run", taught)
    results = Pipeline(config, directory, QUIET)()
    strict = set(strict_split.strict)
    for record in RECORDS:
        path = directory / record
        if path.is_file():
            assert not strict & set(words_of_text(path.read_text())), record
    given = [t for row in rows(directory / "games.jsonl") for t in row["turns"] if t.get("given")]
    assert not strict & {turn["guess"] for turn in given}
    assert (directory / "labels.jsonl").is_file() == (algorithm != "grpo")
    found = audit(directory)
    assert (found.clean, found.num_strict, found.strict_leaks) == (True, 3, ())
    assert results is not None
    assert results[algorithm]["strict"]["num_games"] == results[algorithm]["strict_constrained"]["num_games"] == 3
    assert results[algorithm]["never_said"]["num_games"] >= 3
    stored = json.loads((directory / "strata.json").read_text())
    assert strict <= set(stored["never_said"])


@pytest.mark.parametrize(
    ("record", "row"),
    [
        ("traces.jsonl", {"secret": "{train}", "turns": [{"guess": "{strict}", "marks": "XXXXX", "taught": False}]}),
        ("traces.jsonl", {"secret": "{train}", "turns": [{"guess": "{train}", "thinking": "Perhaps {strict}?"}]}),
        ("labels.jsonl", {"secret": "{train}", "turns": [{"guess": "{strict}", "marks": None, "taught": True}]}),
        ("boards.jsonl", {"secret": "{train}", "turns": [{"guess": "{strict}", "marks": "XXXXX", "given": True}]}),
        ("games.jsonl", {"secret": "{train}", "turns": [{"guess": "{strict}", "given": True}], "turns_used": 1}),
        ("secrets.jsonl", {"stage": "grpo", "secrets": ["{strict}"]}),
    ],
)
def test_the_audit_finds_a_strict_word_in_any_record(
    record: str, row: dict, taught: Path, strict_split, tmp_path: Path, capsys
) -> None:
    directory = Path(shutil.copytree(taught, tmp_path / "run"))
    assert audit(directory).clean
    text = json.dumps(row).replace("{strict}", strict_split.strict[0]).replace("{train}", strict_split.train[0])
    append_jsonl(directory / record, json.loads(text))
    found = audit(directory)
    assert not found.clean
    assert found.strict_leaks == ((record, strict_split.strict[0]),)
    assert main(["report", str(directory), "--audit"]) == 2
    assert f"{strict_split.strict[0]} in {record}" in capsys.readouterr().err or (
        record == "secrets.jsonl"  # which is a held-out secret as well
    )


def test_what_a_policy_says_of_its_own_accord_is_no_leak(taught: Path, strict_split, tmp_path: Path) -> None:
    directory = Path(shutil.copytree(taught, tmp_path / "run"))
    turns = [{"guess": strict_split.strict[0], "reply": strict_split.strict[0], "given": False}]
    append_jsonl(directory / "games.jsonl", {"secret": strict_split.train[0], "turns": turns, "turns_used": 1})
    assert audit(directory).clean


def test_a_model_that_learnt_the_words_elsewhere_is_not_called_strict(
    finished_run, word_directory, tmp_path: Path
) -> None:
    config = settings(tmp_path / "run.toml", word_directory, "grpo")
    config = config.model_copy(
        update={
            "sft": config.sft.model_copy(update={"epochs": 0.0}),
            "model": config.model.model_copy(update={"path": str(finished_run / "sft")}),
        }
    )
    messages = Console(file=io.StringIO(), width=400)
    Pipeline(config, tmp_path / "run", messages)("grpo")
    assert "3 strict words" in messages.file.getvalue()
    assert {name for name, _ in audit(tmp_path / "run").strict_leaks} == {"grpo/wordle_rl.json"}


def test_given_games_that_name_a_strict_word_are_left_out(
    taught: Path, word_directory, strict_split, tmp_path: Path, capsys
) -> None:
    games = rows(taught / "traces.jsonl")
    named = json.loads(json.dumps(games[0]))
    named["turns"][0]["thinking"] = f"{strict_split.strict[0].upper()} would do."
    write_jsonl(tmp_path / "given.jsonl", [named, *games[1:20]])
    config = write_config(
        tmp_path / "given.toml",
        word_directory,
        words__strict_fraction=str(FRACTION),
        traces__file=json.dumps(str(tmp_path / "given.jsonl")),
    )
    assert main(["run", str(config), "--until", "traces", "--out", str(tmp_path / "run")]) == 0
    assert "1 strict_word" in capsys.readouterr().err
    assert len(rows(tmp_path / "run" / "traces.jsonl")) == 19


def test_games_made_beforehand_name_none_if_asked(cli, word_directory, strict_split, tmp_path: Path) -> None:
    asked = ["traces", "--words", word_directory, "--num-games", 400, "--teacher.random-opener-rate", 1]
    strict = set(strict_split.strict)
    for fraction, expected in ((0.0, strict), (FRACTION, set())):
        path = tmp_path / f"{fraction}.jsonl"
        assert cli(*asked, "--strict-fraction", fraction, "--out", path)[0] == 0
        assert strict & set(words_of_text(path.read_text())) == expected
    code, out, _ = cli(
        "dataset",
        tmp_path / "0.0.jsonl",
        "--words",
        word_directory,
        "--strict-fraction",
        FRACTION,
        "--out",
        tmp_path / "d",
    )
    assert code == 0
    assert "rejected: strict_word" in out
    made = "".join((tmp_path / f"d_{name}.jsonl").read_text() for name in ("sft_train", "sft_val", "rl_start_states"))
    assert not strict & set(words_of_text(made))


def test_other_peoples_rows_that_name_one_are_left_out(cli, word_directory, strict_split, tmp_path: Path) -> None:
    word, (secret, other) = strict_split.strict[0], strict_split.train[:2]
    boards = [
        {"prompt": "", "secret": secret, "past_guess_history": [[guess, score_guess(secret, guess)]]}
        for guess in (word, other)
    ]
    write_jsonl(tmp_path / "boards.jsonl", boards)
    out = tmp_path / "out.jsonl"
    code, said_of, err = cli(
        "dataset", tmp_path / "boards.jsonl", "--out", out, "--rows", "grpo", "--words", word_directory,
        "--strict-fraction", FRACTION,
    )  # fmt: skip
    assert code == 0, err
    assert "strict_word" in said_of
    assert word not in out.read_text()


def test_an_initial_board_of_a_file_that_names_one_is_left_out(sixty, strict_split, tmp_path: Path) -> None:
    word, (secret, other) = strict_split.strict[0], strict_split.train[:2]
    write_jsonl(tmp_path / "b.jsonl", [{"secret": secret, "turns": [{"guess": guess}]} for guess in (word, other)])
    found = read_start_boards(tmp_path / "b.jsonl", sixty, strict_split, Rules(), outside=False)
    assert [start.prefix_guesses for start in found.starts] == [(other,)]
    assert found.rejected == {"strict_word": 1}
