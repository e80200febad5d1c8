"""Laws of teacher games: checked again from scratch, never with a held-out secret, and true in every sentence."""

import re
from collections import Counter
from pathlib import Path

import pytest

from wordle_rl.config.teachers import TeacherSettings, TraceSettings
from wordle_rl.data.game_record import GameRecord, TurnRecord, read_traces
from wordle_rl.game import score_guess, violates_clues
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
