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


def test_a_target_that_conforms_gives_0_and_a_report(words: str, tmp_path: Path, capsys) -> None:
    out = tmp_path / "report"
    asked = ["conformance", "faulty_games:RightGame", "--words", words, "--games", "8", "--out", str(out)]
    assert main(asked) == 0
    assert "RightGame conforms" in capsys.readouterr().out.replace("\n", " ")
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
    assert "5 guesses instead of 6" in report["results"][0]["evidence"][0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ftp://somewhere"], "begin it with http"),
        (["http://127.0.0.1:9"], "is a server there"),
        (["faulty_games:RightGame", "--games", "0"], "at least 1"),
        (["faulty_games:RightGame", "--trainer", "faulty_trainers:right"], "--trainer"),
        ([], "--trainer"),
        (["faulty_games:RightGame", "--only", "wordle.luck"], "no check wordle.luck"),
    ],
)
def test_a_wrong_input_is_one_line_and_exit_code_2(arguments: list[str], message: str, capsys) -> None:
    if arguments and arguments[0].startswith(("http", "ftp")):
        pytest.importorskip("openenv")
    assert main(["conformance", *arguments]) == 2
    said = capsys.readouterr().err.strip()
    assert message in said
    assert "\n" not in said
