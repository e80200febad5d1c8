"""Laws of progress: a bar in a terminal; elsewhere few plain lines that say what the bar would."""

import io
import re
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from wordle_rl.env import StopReason
from wordle_rl.evaluate import GameRecord, TurnRecord
from wordle_rl.report.terminal import game_progress
from wordle_rl.runs.progress import LINE_EVERY_S, elapsed, show_progress


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    ours = Clock()
    monkeypatch.setattr("wordle_rl.runs.progress.time.monotonic", ours)
    return ours


def console(**settings: object) -> Console:
    return Console(file=io.StringIO(), width=40, **settings)


def lines_of(shown: Console) -> list[str]:
    return shown.file.getvalue().splitlines()


def test_a_log_gets_a_line_every_half_minute_at_most_and_a_last_one() -> None:
    shown, clock = console(), Clock()
    with show_progress(shown, "[b]GRPO", 0, clock=clock) as tell:
        for step in range(1, 103):
            clock.now += 7.0
            tell(step, 102, f"win_rate {step / 102:.2f}")
    lines = lines_of(shown)
    assert len(lines) == 102 // 5 + 1
    assert lines[0] == "[b]GRPO: 5 of 102, 35 s so far, 7.0 s each, 11 min left, win_rate 0.05"
    assert lines[-1] == "[b]GRPO: 102 of 102, 12 min so far, win_rate 1.00"
    assert LINE_EVERY_S == 30.0


def test_what_is_short_and_leaves_no_bar_leaves_no_line() -> None:
    shown, clock = console(), Clock()
    with show_progress(shown, "m plays", 2, transient=True, clock=clock) as tell:
        tell(1, 2, "")
    assert lines_of(shown) == []
    with show_progress(shown, "m plays", 2, transient=True, clock=clock) as tell:
        clock.now += 31
        tell(1, 2, "")
        tell(2, 2, "")
    assert lines_of(shown) == ["m plays: 1 of 2, 31 s so far", "m plays: 2 of 2, 31 s so far"]


def test_what_is_broken_off_says_how_far_it_came() -> None:
    shown, clock = console(), Clock()

    def stage() -> None:
        with show_progress(shown, "SFT", 9, clock=clock) as tell:
            tell(4, 9, "loss 1.5")
            clock.now += 20
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stage()
    assert lines_of(shown) == ["SFT: 4 of 9, 20 s so far, 5.0 s each, 25 s left, loss 1.5"]


def test_a_terminal_gets_a_bar_with_rate_and_time_left_and_no_lines() -> None:
    shown, clock = Console(file=io.StringIO(), width=100, force_terminal=True), Clock()
    with show_progress(shown, "SFT", 9, clock=clock) as tell:
        for step in (1, 2, 3):
            clock.now += 20
            tell(step, 9, "")
    printed = Text.from_ansi(shown.file.getvalue()).plain
    assert re.search(r"3/9 +0:01:00 +20 s each +left +0:02:00", printed)
    assert "so far" not in shown.file.getvalue()


def test_games_kept_from_before_took_no_time(clock) -> None:
    won = GameRecord("crane", (TurnRecord("crane", "GGGGG"),), stop_reason=StopReason.SOLVED)
    failed = GameRecord("crane", (), stop_reason=StopReason.REQUEST_FAILED, error="down")
    shown = console()
    with game_progress(shown, "m plays", 100, [won] * 40) as tell:
        clock.now += 60
        for record in (won, failed):
            tell(record)
    assert lines_of(shown)[0] == "m plays: 41 of 100, 1 min so far, 41 won, 0 errors"
    assert lines_of(shown)[-1] == "m plays: 42 of 100, 1 min so far, 30 s each, 29 min left, 41 won, 1 errors"


def test_a_language_models_games_are_told_with_wins_errors_and_cost(serve, small_words, tmp_path: Path, clock) -> None:
    pytest.importorskip("openai")
    from fake_endpoint import chat

    from wordle_rl.config import LLMTeacherSettings
    from wordle_rl.teachers.collect import collect
    from wordle_rl.words.split import split_secrets

    def answer(number: int, _body: dict):
        clock.now += 10
        return (400, {}) if number == 6 else chat("<guess>zzzzz</guess>", usage=(100, 10))

    words = LLMTeacherSettings(
        provider=serve(answer).url, model="org/m", max_secrets=3, max_concurrent=1, price_in=1000, price_out=1000
    )
    shown = console()
    collect(tmp_path / "t.jsonl", small_words, split_secrets(small_words), words, 0, None, shown)
    assert lines_of(shown) == [
        "org/m: 1 of 3, 1 min so far, 0 won, 0 errors, 660 tokens, cost 0.6600",
        "org/m: 3 of 3, 2 min so far, 0 won, 1 errors, 1,320 tokens, cost 1.3200",
    ]


def test_a_stage_of_a_run_is_told(tmp_path: Path, clock) -> None:
    from wordle_rl.config import RunConfig
    from wordle_rl.pipeline.work import RunWork

    shown = console()
    with RunWork.of(RunConfig(), tmp_path, shown).stage("grpo", "GRPO", 0) as tell:
        for step in (1, 2, 3):
            clock.now += 20
            tell(step, 200, f"win_rate 0.{step}")
    assert lines_of(shown) == [
        "GRPO: 2 of 200, 40 s so far, 20 s each, 1 h 6 min left, win_rate 0.2",
        "GRPO: 3 of 200, 1 min so far, 20 s each, 1 h 6 min left, win_rate 0.3",
    ]


def test_time_is_told_in_minutes_however_long() -> None:
    assert [elapsed(s) for s in (0.4, 61, 3600 * 30)] == ["0 min 0 s", "1 min 1 s", "1800 min 0 s"]
