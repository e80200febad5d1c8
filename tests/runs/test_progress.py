"""Laws of progress outside a terminal, and of percentages: 0 or 100 only where nothing or everything is meant."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from wordle_rl.data.game_record import GameRecord, TurnRecord
from wordle_rl.env import StopReason
from wordle_rl.report.terminal import game_progress
from wordle_rl.runs.progress import in_percent, show_progress


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


def test_a_log_gets_a_line_every_half_minute_at_most_and_a_last_one(clock) -> None:
    shown = console()
    with show_progress(shown, "[b]GRPO", 0) as tell:
        for step in range(1, 103):
            clock.now += 7.0
            tell(step, 102, f"win_rate {step / 102:.2f}")
    lines = lines_of(shown)
    assert len(lines) == 102 // 5 + 1
    assert lines[0] == "[b]GRPO: 5 of 102, 35 s so far, 7.0 s each, 11 min left, win_rate 0.05"
    assert lines[-1] == "[b]GRPO: 102 of 102, 12 min so far, win_rate 1.00"


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


@given(total=st.integers(1, 10_000_000), data=st.data(), digits=st.integers(0, 2))
def test_a_share_reads_as_0_or_100_only_if_it_is(total: int, data: st.DataObject, digits: int) -> None:
    share = data.draw(st.integers(0, total)) / total
    text = in_percent(share, digits)
    assert (float(text) in (0, 100)) == (share in (0, 1))
    decimals = len(text.partition(".")[2])
    assert decimals >= digits
    assert float(text) == pytest.approx(100 * share, abs=0.500001 / 10**decimals)
