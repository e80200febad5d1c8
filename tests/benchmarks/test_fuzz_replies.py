"""Laws of the fuzzing of replies: it sees a parser that errs, and its record is that of a full run without a fault."""

import importlib
import json
import random
from pathlib import Path

import pytest

from wordle_rl.prompt import Guess

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def fuzzing(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("fuzz_replies")


def test_a_short_run_reads_all_and_finds_nothing(fuzzing) -> None:
    record = fuzzing.fuzz(3000, seed=0)
    assert (record["replies"], record["crashes"], record["false_guesses"], record["missed_guesses"]) == (3000, 0, 0, 0)
    again = fuzzing.fuzz(3000, seed=0)
    assert (again["guesses"], again["characters"]) == (record["guesses"], record["characters"])
    # Both readers are asked in earnest: every mode has replies with a guess, and replies without.
    rng = random.Random(0)
    read = [
        (mode, fuzzing.read_reply(fuzzing.random_reply(rng), thinking.value, brackets=brackets) is not None)
        for mode, (thinking, brackets) in enumerate(fuzzing._MODES * 500)
    ]
    assert record["guesses"] == sum(is_guess for _, is_guess in read)
    assert {(mode % len(fuzzing._MODES), is_guess) for mode, is_guess in read} == {
        (mode, is_guess) for mode in range(len(fuzzing._MODES)) for is_guess in (False, True)
    }


@pytest.mark.parametrize(("fault", "wrong"), [
    ("false_guesses", lambda reply, *_, **__: Guess("crane")),
    ("missed_guesses", lambda reply, *_, **__: None),
    ("crashes", lambda reply, *_, **__: reply.encode("ascii").index(b"<guess>")),
])  # fmt: skip
def test_a_parser_that_errs_is_seen(fault: str, wrong, fuzzing, monkeypatch, capsys) -> None:
    monkeypatch.setattr(fuzzing, "parse_reply", wrong)
    assert fuzzing.fuzz(200, seed=0)[fault] > 0
    monkeypatch.setattr("sys.argv", ["fuzz_replies.py", "--count", "200", "--json"])
    assert fuzzing.main() == 1
    assert json.loads(capsys.readouterr().out)["examples"]
