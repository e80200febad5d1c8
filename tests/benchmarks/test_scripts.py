"""Laws of the scripts that fuzz, soak and run for hours: they see what is wrong, and a short run finds nothing."""

import importlib
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from wordle_rl.config.files import load_config
from wordle_rl.data.game_record import GameRecord, TurnRecord
from wordle_rl.evaluate.records import EvalConditions, Evaluation
from wordle_rl.game import Outcome, Rules, violates_clues
from wordle_rl.prompt import Guess, Prompter
from wordle_rl.words import load_words

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def run(script: str, *arguments: str) -> dict:
    """The report of a script, which must find nothing."""
    command = [sys.executable, BENCHMARKS / script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


# --- replies: the parser against a second reader ---


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


# --- strict words: what a model does once no known word fits ---


def test_a_turn_on_a_board_without_a_known_word_is_counted_as_what_it_is(monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    script = importlib.import_module("strict_words")
    config = load_config(Path("smollm2-solver"))
    context = script.GameContext.of(config)
    letters = script.Letters(context.for_training.solver.words.guesses)
    listed = frozenset(context.words.guesses)
    boards = script.exhausted_boards(context, config.traces, 0)
    secret, board = next((secret, board) for secret, board in boards.items() if len(board) == 2)
    fits = (word for word in letters.likeliest(script.knowledge_of(board, 5)) if not violates_clues(word, board))
    string = next(word for word in fits if word not in listed)
    before = [TurnRecord(turn.guess, turn.marks) for turn in board]
    refused = [TurnRecord(word, None, outcome=Outcome.UNLISTED) for word in (string, string, "qqqqq")]
    unread = TurnRecord(None, None, outcome=Outcome.MALFORMED)

    def counts(*turns: TurnRecord, error: str | None = None) -> dict[str, int]:
        game = GameRecord(secret, (*before, *turns), error=error)
        return script.by_a_model([game], context, listed, letters)

    found = counts(*refused, TurnRecord(secret, "GGGGG"))
    assert found.pop("model: letters from its boards") == script.by_letters(secret, board, (), 4, listed, letters)
    assert found == {
        "model: games": 1,
        "model: wins": 1,
        "model: boards without a known word": 1,
        "model: turns, no word, but it fits": 1,
        "model: turns, a refused string again": 1,
        "model: turns, against a mark": 1,
        "model: turns, the secret": 1,
    }
    assert counts(unread, unread)["model: turns, no guess"] == 2
    assert counts(*refused, error="the endpoint is gone") == {}
    # The board is that after two turns: with a turn fewer nothing is counted.
    del before[1]
    assert counts() == {"model: games": 1, "model: wins": 0}


@pytest.mark.parametrize("fault", ["missing", "no evaluation", "no strict word"])
def test_games_that_tell_nothing_are_refused(fault: str, tmp_path) -> None:
    path = tmp_path / "eval.json"
    if fault == "no evaluation":
        path.write_text("{}", encoding="utf-8")
    elif fault == "no strict word":
        words, game = load_words(), GameRecord("crane", (TurnRecord("crane", "GGGGG"),))
        conditions = EvalConditions.of(Prompter())
        Evaluation("solver", "solver", (), Rules(), words.fingerprint, (game,), conditions).save(path)
    command = [sys.executable, BENCHMARKS / "strict_words.py", "smollm2-solver", "--games", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert {"missing": "no file"}.get(fault, fault) in done.stderr


# --- hours: growth is found, and the server holds what it held ---


def test_growth_is_that_after_the_first_quarter(monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from readings import Reading, growth

    rising = [Reading(number, 100 + 100 * (number >= 10) + number, 4, 8) for number in range(1, 41)]
    assert growth(rising)["memory"] == pytest.approx((240 - 211) / 211)
    leaking = [Reading(number, 100, 4 + number // 20, 8 + number) for number in range(1, 41)]
    assert growth(leaking)["memory"] == pytest.approx(0)
    assert growth(leaking)["threads"] == 0.25
    assert growth(leaking)["files"] == pytest.approx(39 / 9 - 1)


@pytest.mark.slow
def test_the_server_ends_silent_sessions_by_its_own_clock_and_holds_what_it_held(tmp_path) -> None:
    found = run(
        "long_runs.py",
        "server",
        "--hours",
        "1.5",
        "--record",
        str(tmp_path / "r.json"),
        "--svg",
        str(tmp_path / "r.svg"),
    )
    assert found["silent_sessions"] >= 3
    assert found["ended_after_s"] > 1750  # of 1800
    assert found["turns"] > 0
    assert "<svg" in (tmp_path / "r.svg").read_text()
    assert len(json.loads((tmp_path / "r.json").read_text())["readings"]) >= 10


@pytest.mark.slow
def test_a_short_storm_leaves_no_trace() -> None:
    report = run("soak.py", "--connections", "1000", "--slow", "10", "--json")
    assert report["faults"] == []
    assert report["turns_meanwhile"] > 0
    assert report["after"]["sockets"] <= report["before"]["sockets"]  # of memory the script knows what is a trace
