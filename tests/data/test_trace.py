"""Laws of teacher games: checked from scratch, never of a held-out secret, true in every sentence, the same as CSV."""

import csv
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from wordle_rl.config.teachers import TeacherSettings, TraceSettings
from wordle_rl.data.game_record import GameNotes, GameRecord, TurnNotes, TurnRecord, read_traces
from wordle_rl.data.trace_files import COLUMNS, read_games, write_csv_files
from wordle_rl.game import Outcome, score_guess, violates_clues
from wordle_rl.runs import RunError, write_jsonl
from wordle_rl.solver import Solver
from wordle_rl.teachers.games import draw_secrets, solver_traces
from wordle_rl.teachers.solver import SolverTeacher
from wordle_rl.words import WordList
from wordle_rl.words.split import split_secrets


def possible(words: WordList, trace: GameRecord, num_turns: int) -> list[str]:
    """The answers that would have earned the same marks for the first guesses."""
    return [word for word in words.answers if not violates_clues(word, trace.board(num_turns))]


def test_games_are_won_or_end_where_no_answer_fits_or_turns_are_out(sixty) -> None:
    endings = Counter()
    settings = TraceSettings(num_games=120, outside_rate=0.5)
    secrets = draw_secrets(sixty, split_secrets(sixty), settings, 0)
    for trace in solver_traces(secrets, SolverTeacher(Solver(sixty)), settings, 0):
        if trace.won:
            endings["won"] += 1
            assert all(turn.guess != trace.secret for turn in trace.turns[:-1])
        elif len(trace.turns) == 6:
            endings["out of turns"] += 1
        else:
            endings["no answer fits"] += 1
            assert trace.secret not in sixty.answers
            assert possible(sixty, trace, len(trace.turns)) == []
    assert endings["won"] > 50
    assert endings["no answer fits"] > 10


def test_narration_says_what_a_player_can_know_and_no_number(sixty, traces) -> None:
    kinds = Counter()
    for trace in traces:
        for count, turn in enumerate(trace.turns):
            if not turn.taught:
                continue
            left = possible(sixty, trace, count)
            if only := re.search(r"Only (\w+) fits", turn.thinking):
                assert left == [only[1]] == [turn.guess]
                assert trace.secret == turn.guess, "no thought is false of its own secret"
                kinds["only"] += 1
                continue
            after_facts = turn.thinking.split(". ")[-1]
            assert not re.search(r"\d", after_facts)
            assert ("A few words are possible" in after_facts) == (len(left) <= 5)
            assert turn.guess in after_facts
            if "tells all of them apart" in after_facts:
                assert len({score_guess(word, turn.guess) for word in left}) == len(left)
                kinds["apart"] += 1
            kinds["most"] += "tells most of them apart" in after_facts
    assert all(kinds[kind] for kind in ("only", "most", "apart")), kinds


def test_a_probe_is_never_called_possible() -> None:
    answers = ("batch", "catch", "hatch", "latch", "match", "patch", "watch", "abbey")
    words = WordList("rhymes", answers, (*answers, "clamp", "whelm", "clmpw"))
    teacher = TeacherSettings(plan="probes", noise_rate=0.0)
    settings = TraceSettings(num_games=40, narrate=True, outside_rate=0.0, teacher=teacher)
    secrets = draw_secrets(words, split_secrets(words), settings, 0)
    kinds = Counter()
    for trace in solver_traces(secrets, SolverTeacher(Solver(words)), settings, 0):
        for count, turn in enumerate(trace.turns):
            if turn.taught and count and turn.notes.remaining > 1:
                left = possible(words, trace, count)
                fits = turn.guess in left
                assert ("is one of them" in turn.thinking) == fits
                assert ("is none of them" in turn.thinking) == (not fits)
                classes = len({score_guess(word, turn.guess) for word in left})
                apart = "tells all of them apart" in turn.thinking
                assert apart == (classes == len(left) <= 5)
                assert apart or "tells most of them apart" in turn.thinking
                kinds["possible" if fits else "apart" if apart else "most"] += 1
    assert all(kinds[kind] for kind in ("possible", "most")), kinds


def test_no_held_out_secret_is_ever_played(sixty, split, traces) -> None:
    held_out = {*split.val, *split.test}
    assert held_out
    assert not held_out & {trace.secret for trace in traces}
    for seed in range(20):
        secrets = draw_secrets(sixty, split, TraceSettings(num_games=500, outside_rate=0.5), seed)
        assert not held_out & set(secrets)


def test_secrets_kept_for_rl_are_never_the_teachers(sixty, split) -> None:
    settings = TraceSettings(num_games=1000, outside_rate=0.0, rl_only_fraction=0.25)
    kept = len(split.train) // 4
    counts = Counter(draw_secrets(sixty, split, settings, 0))
    assert kept > 0
    assert set(counts) == set(split.train[:-kept])
    assert max(counts.values()) - min(counts.values()) <= 1
    assert split.shared(0.25) == (split.train[:-kept], split.train[-kept:])
    assert split.shared(0.0) == (split.train, split.train)


def test_traces_come_back_as_written(traces, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "traces.jsonl", (trace.to_row() for trace in traces))
    assert list(read_traces(tmp_path / "traces.jsonl")) == traces


def test_a_stored_row_is_flat_and_what_is_known_becomes_notes() -> None:
    guess = {"outcome": "scored", "guess": "crate", "marks": "GGGXG", "reply": "<guess>crate</guess>"}
    known = {"repeated": True, "violates_clues": True, "regret": 0.25, "reward": 0.5, "components": {"win": 1.0}}
    row = {"secret": "crane", "won": False, "turns_used": 1, "reward": 0.75, "turns": [guess | known]}
    read = GameRecord.from_row(row | {"stage": "grpo", "step": 3})
    [turn] = read.turns
    assert (turn.guess, turn.notes.regret, turn.notes.components, read.notes.reward) == (
        "crate",
        0.25,
        {"win": 1.0},
        0.75,
    )
    assert read.to_row() == row


@pytest.mark.parametrize(
    "row",
    [
        {"secret": "crane"},
        {"secret": "crane", "turns": [{"guess": "crane"}]},
        {"secret": "crane", "turns": [{"guess": "crane", "marks": "GGGGG", "odd": 1}]},
        {"secret": "crane", "turns": 3},
        {"secret": "crane", "turns": [{"guess": "crane", "marks": "GGGGG", "outcome": "odd"}]},
        {"secret": "crane", "turns": ["crane"]},
        {"secret": "crane", "turns": [], "teacher": None},
    ],
)
def test_a_row_that_is_no_trace_is_named(row, tmp_path: Path) -> None:
    sound = GameRecord("crane", (TurnRecord("crane", "GGGGG"),)).to_row()
    write_jsonl(tmp_path / "traces.jsonl", [sound, row])
    with pytest.raises(RunError, match=r"traces\.jsonl:2"):
        list(read_traces(tmp_path / "traces.jsonl"))


def game(secret: str, seed: int = 0, *guesses: str, model: str = "m", error: str | None = None) -> GameRecord:
    turns = [TurnRecord(g, score_guess(secret, g), thinking=f"say\n{g},", reply=f'"{g}"') for g in guesses]
    return GameRecord(secret, tuple(turns), error, notes=GameNotes(model, seed))


BROKEN = TurnRecord(
    None, None, False, outcome=Outcome.MALFORMED, reply="é, 🟩\nno", costs_turn=False, notes=TurnNotes(finish="length")
)
GAMES = [
    replace(game("crane", 0, "crane"), turns=(BROKEN, *game("crane", 0, "crane").turns)),
    replace(game("crane", 1, "crate", "crane"), notes=GameNotes("m", 1, 200, 31)),
    game("crane", 0, "crate", model="other/model"),
    replace(game("abbey", 0, "crane"), turns=(replace(game("abbey", 0, "crane").turns[0], taught=False),)),
]


def test_csv_files_hold_one_word_each_and_read_back_the_same(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    failed = [game("civic", 0, error="down"), game("crane", 7, "crate", error="down")]
    write_jsonl(path, (one.to_row() for one in [*GAMES, *failed]))
    assert write_csv_files(path, tmp_path / "csv") == 2
    assert sorted(p.name for p in (tmp_path / "csv").iterdir()) == ["wordle_data_ABBEY.csv", "wordle_data_CRANE.csv"]
    with (tmp_path / "csv" / "wordle_data_CRANE.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    found = [(r["model"], r["seed"], r["turn"], r["won"]) for r in rows]
    won = [("m", seed, turn, "1") for seed in "01" for turn in "12"]
    assert found == [*won, ("other/model", "0", "1", "0")]
    assert sorted(read_games(tmp_path / "csv"), key=lambda g: g.key) == sorted(GAMES, key=lambda g: g.key)


@pytest.mark.parametrize("reply", ["a\rb", "\r", "a\r\nb", "\n", '"', '",', " a ", "", "=1+1", "'=1+1", "-1"])
def test_a_reply_of_any_characters_reads_back_the_same(reply: str, tmp_path: Path) -> None:
    odd = replace(GAMES[0], turns=(replace(BROKEN, reply=reply, thinking=reply), *GAMES[0].turns[1:]))
    write_jsonl(tmp_path / "t.jsonl", [odd.to_row()])
    write_csv_files(tmp_path / "t.jsonl", tmp_path)
    assert list(read_games(tmp_path)) == [odd]
