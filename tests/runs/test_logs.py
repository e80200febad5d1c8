"""Laws of append-only files after a stop: a cut line is removed, a whole one stays, and later steps are taken back."""

import json
from pathlib import Path

import pytest

from wordle_rl.runs import RunError, append_jsonl, read_jsonl
from wordle_rl.runs.logs import NotOwnLineError, drop_rows, repair_end, repair_logs, rewind

ROWS = [{"stage": "sft", "step": step, "text": "é" * step} for step in range(1, 4)]


def written(path: Path, rows=ROWS) -> bytes:
    path.unlink(missing_ok=True)
    for row in rows:
        append_jsonl(path, row)
    return path.read_bytes()


def test_a_line_cut_at_any_byte_is_removed_and_the_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    whole = written(path)
    second = whole.index(b"\n", whole.index(b"\n") + 1) + 1
    for cut in range(second + 1, len(whole) - 1):
        path.write_bytes(whole[:cut])
        assert repair_end(path) == cut - second
        assert path.read_bytes() == whole[:second]


def test_a_line_that_lacks_its_break_alone_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    whole = written(path)
    path.write_bytes(whole[:-1])
    assert repair_end(path) == 0
    assert path.read_bytes() == whole
    assert repair_end(path) == 0


def test_what_is_missing_stays_missing_and_another_kind_of_file_stays_as_it_is(tmp_path: Path) -> None:
    assert repair_end(tmp_path / "none.jsonl") == 0
    assert list(tmp_path.iterdir()) == []
    path = tmp_path / "diary"
    path.write_text("dear diary")
    with pytest.raises(NotOwnLineError, match="diary ends with a line of another kind"):
        repair_end(path, lambda tail: tail.startswith(b"{"))
    assert path.read_text() == "dear diary"


def test_files_that_a_kill_left_half_written_are_removed(tmp_path: Path) -> None:
    for name in (".timings.json.partial", "timings.json", ".lock"):
        (tmp_path / name).write_text("{")
    (tmp_path / ".dpo.partial").mkdir()
    assert repair_logs(tmp_path) == []
    assert {path.name for path in tmp_path.iterdir()} == {"timings.json", ".lock", ".dpo.partial"}


def test_each_repaired_log_is_named(tmp_path: Path) -> None:
    for name in ("metrics.jsonl", "games.jsonl", "secrets.jsonl"):
        written(tmp_path / name)
    (tmp_path / "games.jsonl").write_bytes((tmp_path / "games.jsonl").read_bytes()[:-5])
    [told] = repair_logs(tmp_path)
    assert told.startswith(f"{tmp_path / 'games.jsonl'} ended in the middle of a line, which was cut off (")
    assert repair_logs(tmp_path) == []


def test_steps_past_the_checkpoint_are_taken_back_by_stage_and_file(tmp_path: Path) -> None:
    rows = [
        {"stage": "sft", "step": 9},
        {"stage": "grpo", "step": 1},
        {"stage": "validation", "step": 2},
        {"stage": "grpo", "step": 2},
        {"stage": "grpo", "step": 3},
        {"stage": "blend", "step": 50.0},
    ]
    for name in ("metrics.jsonl", "games.jsonl"):
        written(tmp_path / name, rows)
    before = (tmp_path / "games.jsonl").stat().st_mtime_ns
    count = rewind(tmp_path, {"metrics.jsonl": {"grpo": 3, "validation": 2, "blend": 0}, "games.jsonl": {"grpo": 4}})
    assert count == 3
    assert list(read_jsonl(tmp_path / "metrics.jsonl")) == [rows[0], rows[1], rows[3]]
    assert list(read_jsonl(tmp_path / "games.jsonl")) == rows
    assert (tmp_path / "games.jsonl").stat().st_mtime_ns == before, "nothing to take back: it is not written"


def test_a_damaged_line_in_the_middle_is_named_and_nothing_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(json.dumps(ROWS[0]) + "\n{oops\n" + json.dumps(ROWS[1]) + "\n")
    with pytest.raises(RunError, match=r"metrics\.jsonl:2 is no JSON"):
        drop_rows(path, lambda row: row["step"] == 2)
    assert path.read_text().count("\n") == 3
