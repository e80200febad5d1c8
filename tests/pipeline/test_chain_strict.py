"""Laws of strict words: nothing that a model learns from names one, in any stage, and the audit proves it of a run."""

import io
import json
import shutil
from pathlib import Path

import pytest
from rich.console import Console
from training_fixtures import begun, compact, rows, write_config

from wordle_rl.cli import main
from wordle_rl.config.context import GameContext
from wordle_rl.config.files import load_config
from wordle_rl.config.run import RunConfig
from wordle_rl.game import Rules, score_guess
from wordle_rl.pipeline import Pipeline
from wordle_rl.runs import append_jsonl, read_object, write_jsonl
from wordle_rl.runs.lineage import audit
from wordle_rl.solver import Solver
from wordle_rl.train.starts_file import read_start_boards
from wordle_rl.words.split import Split, split_secrets, words_of_text

QUIET = Console(quiet=True)
FRACTION = 0.05
RECORDS = ("traces.jsonl", "validation_traces.jsonl", "labels.jsonl", "boards-grpo.jsonl", "secrets.jsonl")


@pytest.fixture(scope="module")
def strict_split(sixty) -> Split:
    return split_secrets(sixty, strict_fraction=FRACTION)


def test_in_training_a_strict_word_may_be_said_and_is_no_answer(sixty, strict_split) -> None:
    whole = GameContext(sixty, strict_split, compact(), Solver(sixty))
    training, word = whole.for_training, strict_split.strict[0]
    assert word in training.words, "the policy may say it without breaking a rule"
    for holding in (training.words.answer_index, training.words.outside, training.solver.words):
        assert word not in holding
    assert len(training.solver.candidates([])) == len(whole.solver.candidates([])) - 3


ROUNDS = {"rounds": "1", "groups_per_round": "6", "group_size": "4"}


def settings(path: Path, words: Path, stage: str, **changes: str) -> RunConfig:
    rounds = ("expert_iteration", "dpo", "distill")
    changes |= {f"{name}__{key}": value for name in rounds for key, value in ROUNDS.items()}
    changes = {
        "stages": f'["sft", "{stage}"]', "words__strict_fraction": str(FRACTION), "traces__slip_rate": "0.3",
        f"{stage}.starts__max_prefix_guesses": "2", "eval__also": '["constrained"]',
        **changes,
    }  # fmt: skip
    if stage == "grpo":
        changes |= {"grpo__outside_rate": "0.4", "grpo.reward__weights": "{ quick_regret = -1.0 }"}
    return load_config(write_config(path, words, **changes))


@pytest.fixture(scope="module")
def taught_once(word_directory, tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("strict") / "taught"
    Pipeline(settings(directory.with_suffix(".toml"), word_directory, "grpo"), directory, QUIET)("sft")
    return directory


@pytest.fixture
def taught(taught_once: Path, tmp_path: Path) -> Path:
    """A run up to SFT."""
    return Path(shutil.copytree(taught_once, tmp_path / "taught"))


INVENTED = {"expert_iteration__labels": '"mistakes"', "expert_iteration__invented_rate": "0.7"}


@pytest.mark.parametrize(
    ("stage", "changes"),
    [("grpo", {}), ("expert_iteration", {}), ("expert_iteration", INVENTED), ("dpo", {}), ("distill", {})],
)
def test_no_record_of_any_stage_names_a_strict_word(
    stage, changes, taught, word_directory, strict_split, tmp_path
) -> None:
    config = settings(tmp_path / "run.toml", word_directory, stage, **changes)
    directory = begun(config, tmp_path / "run", taught)
    results = Pipeline(config, directory, QUIET)()
    strict = set(strict_split.strict)
    records = {record for record in RECORDS if (directory / record).is_file()}
    assert ("labels.jsonl" in records) == (stage != "grpo")
    for record in records:
        assert not strict & set(words_of_text((directory / record).read_text())), record
    given = [t for row in rows(directory / "games.jsonl") for t in row["turns"] if t.get("given")]
    assert not strict & {turn["guess"] for turn in given}
    found = audit(directory)
    assert (found.clean, found.num_strict, found.strict_leaks) == (True, 3, ())
    parts = {part: figures["num_games"] for part, figures in results[stage].items()}
    assert parts["strict"] == parts["strict_constrained"] == 3 <= parts["never_said"]
    assert strict <= set(read_object(directory / "strata.json")["never_said"])


@pytest.mark.parametrize(
    ("record", "row"),
    [
        ("traces.jsonl", {"turns": [{"guess": "{strict}", "marks": "XXXXX", "taught": False}]}),
        ("traces.jsonl", {"turns": [{"guess": "crane", "thinking": "Perhaps {strict}?"}]}),
        ("plain_text.jsonl", {"text": "It was {strict} again.", "token_ids": [1, 2]}),
        ("labels.jsonl", {"turns": [{"guess": "{strict}", "marks": None, "taught": True}]}),
        ("boards-grpo.jsonl", {"turns": [{"guess": "{strict}", "marks": "XXXXX", "given": True}]}),
        ("games.jsonl", {"turns": [{"guess": "{strict}", "given": True}], "turns_used": 1}),
        ("secrets.jsonl", {"stage": "grpo", "secrets": ["{strict}"]}),
        ("games.jsonl", {"turns": [{"guess": "{strict}", "reply": "{strict}", "given": False}], "turns_used": 1}),
    ],
)
def test_the_audit_finds_a_strict_word_in_any_record_unless_a_policy_said_it(record, row, taught, strict_split) -> None:
    text = json.dumps({"secret": strict_split.train[0], **row}).replace("{strict}", strict_split.strict[0])
    assert audit(taught).clean
    append_jsonl(taught / record, json.loads(text))
    found, said = audit(taught), '"given": false' in text
    assert found.clean == said
    assert found.strict_leaks == (() if said else ((record, strict_split.strict[0]),))
    assert main(["report", str(taught), "--audit"]) == (0 if said else 2)


def test_a_model_that_learnt_the_words_elsewhere_is_not_called_strict(finished_run, word_directory, tmp_path) -> None:
    changes = {"stages": '["grpo"]', "model__path": f"'{finished_run / 'sft'}'"}
    messages = Console(file=io.StringIO(), width=400)
    Pipeline(settings(tmp_path / "run.toml", word_directory, "grpo", **changes), tmp_path / "run", messages)("grpo")
    assert "3 strict words" in messages.file.getvalue()
    assert {name for name, _ in audit(tmp_path / "run").strict_leaks} == {"grpo/wordle_rl.json"}


def test_given_games_that_name_a_strict_word_are_left_out(taught: Path, word_directory, strict_split, tmp_path) -> None:
    named, *others = rows(taught / "traces.jsonl")[:20]
    named["turns"][0]["thinking"] = f"{strict_split.strict[0].upper()} would do."
    write_jsonl(tmp_path / "given.jsonl", [named, *others])
    given = f"'{tmp_path / 'given.jsonl'}'"
    config = settings(tmp_path / "given.toml", word_directory, "grpo", traces__file=given)
    Pipeline(config, tmp_path / "run", QUIET)("traces")
    assert len(rows(tmp_path / "run" / "traces.jsonl")) == 19


def test_games_made_beforehand_name_none_if_asked(cli, word_directory, strict_split, tmp_path: Path) -> None:
    asked = ["traces", "--words", word_directory, "--num-games", 400, "--teacher.random-opener-rate", 1]
    strict = set(strict_split.strict)
    for fraction, expected in ((0.0, strict), (FRACTION, set())):
        path = tmp_path / f"{fraction}.jsonl"
        assert cli(*asked, "--strict-fraction", fraction, "--out", path)[0] == 0
        assert strict & set(words_of_text(path.read_text())) == expected
    options = ("--words", word_directory, "--strict-fraction", FRACTION)
    code, out, _ = cli("dataset", tmp_path / "0.0.jsonl", *options, "--out", tmp_path / "d")
    assert code == 0
    assert "strict_word" in out
    made = "".join((tmp_path / f"d_{name}.jsonl").read_text() for name in ("sft_train", "sft_val", "rl_start_states"))
    assert not strict & set(words_of_text(made))


def test_other_rows_and_boards_that_name_one_are_left_out(cli, sixty, word_directory, strict_split, tmp_path) -> None:
    word, (secret, other) = strict_split.strict[0], strict_split.train[:2]
    histories = [[[guess, score_guess(secret, guess)]] for guess in (word, other)]
    path = tmp_path / "boards.jsonl"
    write_jsonl(path, [{"prompt": "", "secret": secret, "past_guess_history": history} for history in histories])
    options = ("--words", word_directory, "--strict-fraction", FRACTION, "--rows", "grpo")
    code, found, err = cli("dataset", path, *options, "--out", tmp_path / "out.jsonl")
    assert code == 0, err
    assert "strict_word" in found
    assert word not in (tmp_path / "out.jsonl").read_text()
    write_jsonl(path, [{"secret": secret, "turns": [{"guess": guess}]} for guess in (word, other)])
    boards = read_start_boards(path, sixty, strict_split, Rules(), outside=False)
    assert [start.prefix_guesses for start in boards.starts] == [(other,)]
    assert boards.rejected == {"strict_word": 1}
