"""Laws of the command: exit codes, the report as JSON, refusals in one line."""

import json
from pathlib import Path

import pytest
from faulty_games import write_words

from wordle_rl.cli import main
from wordle_rl.conformance.environment_checks import CHECKS


@pytest.fixture
def words(tmp_path: Path) -> str:
    return write_words(tmp_path / "words")


def test_a_target_that_conforms_gives_0_and_a_report(words: str, tmp_path: Path) -> None:
    out = tmp_path / "report"
    asked = ["conformance", "faulty_games:RightGame", "--words", words, "--games", "8", "--out", str(out)]
    assert main(asked) == 0
    report = json.loads((out / "conformance.json").read_text())
    assert report["conforms"] is True
    assert [each["check_id"] for each in report["results"]] == [check.check_id for check in CHECKS]
    assert report["counts"] == {"pass": len(CHECKS)}


def test_a_trainer_is_held_against_ours_and_a_fault_gives_1(capsys) -> None:
    pytest.importorskip("torch")
    assert main(["conformance", "--trainer", "faulty_trainers:right", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"] == {"pass": 5}
    assert main(["conformance", "--trainer", "faulty_trainers:shifted"]) == 1


def test_a_target_that_fails_a_check_gives_1(words: str, capsys) -> None:
    asked = ["conformance", "faulty_games:FiveTurns", "--words", words, "--games", "2", "--json"]
    assert main([*asked, "--only", "wordle.turn_limit"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert [(each["check_id"], each["status"]) for each in report["results"]] == [("wordle.turn_limit", "fail")]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("ftp://somewhere", "ftp://somewhere"),
        ("http://127.0.0.1:9", "127.0.0.1:9"),
        ("faulty_games:RightGame --games 0", "--games"),
        ("faulty_games:RightGame --trainer faulty_trainers:right", "--trainer"),
        ("", "--trainer"),
        ("faulty_games:RightGame --only wordle.luck", "wordle.luck"),
    ],
)
def test_a_wrong_input_is_one_line_and_exit_code_2(arguments: str, named: str, cli) -> None:
    if arguments.startswith(("http", "ftp")):
        pytest.importorskip("openenv")
    code, _, said = cli("conformance", *arguments.split())
    assert (code, said.count("\n")) == (2, 1)
    assert named in said
