"""Laws of append-only files: one writer, a cut line is removed, a whole one stays, later steps are taken back."""

import errno
import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refused import refusal

from wordle_rl.runs import RunError, append_jsonl, exclusive_lock, read_jsonl, read_object
from wordle_rl.runs.jsonl_store import OtherSettingsError, Store, repair_end, repair_logs, rewind, unfinished

ROWS = [{"stage": "sft", "step": step, "text": "é" * step} for step in range(1, 4)]


def written(path: Path, rows=ROWS) -> bytes:
    path.unlink(missing_ok=True)
    for row in rows:
        append_jsonl(path, row)
    return path.read_bytes()


@pytest.fixture
def stored(tmp_path: Path):
    """Open the store t.jsonl for as long as the context lasts."""

    @contextmanager
    def opened(asked: dict | None = None, **how: object) -> Iterator[Store]:
        with closing(Store(tmp_path / "new" / "t.jsonl", asked, **how)) as store:
            yield store

    return opened


def test_a_line_cut_at_any_byte_is_removed_and_the_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    whole = written(path)
    second = whole.index(b"\n", whole.index(b"\n") + 1) + 1
    for cut in range(second + 1, len(whole) - 1):
        path.write_bytes(whole[:cut])
        assert repair_end(path) == cut - second
        assert path.read_bytes() == whole[:second]
    path.write_bytes(whole[:-1])  # only the break is missing
    assert repair_end(path) == 0
    assert path.read_bytes() == whole


def test_each_repaired_log_is_named_and_half_written_files_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".timings.json.partial").write_text("{")
    (tmp_path / ".dpo.partial").mkdir()
    for name in ("metrics.jsonl", "games.jsonl", "secrets.jsonl"):
        written(tmp_path / name)
    (tmp_path / "games.jsonl").write_bytes((tmp_path / "games.jsonl").read_bytes()[:-5])
    [told] = repair_logs(tmp_path)
    assert told.startswith(str(tmp_path / "games.jsonl"))
    assert repair_logs(tmp_path) == []
    assert [path.name for path in tmp_path.glob(".*")] == [".dpo.partial"]


def test_steps_past_the_checkpoint_are_taken_back_by_stage_and_file(tmp_path: Path) -> None:
    steps = [("sft", 9), ("grpo", 1), ("grpo/validation", 2), ("grpo", 2), ("grpo", 3), ("grpo/blend", 50.0)]
    rows = [{"stage": stage, "step": step} for stage, step in steps]
    for name in ("metrics.jsonl", "games.jsonl"):
        written(tmp_path / name, rows)
    before = (tmp_path / "games.jsonl").stat().st_mtime_ns
    firsts = {"grpo": 3, "grpo/validation": 2, "grpo/blend": 0}
    count = rewind(tmp_path, {"metrics.jsonl": firsts, "games.jsonl": {"grpo": 4}})
    assert count == 3
    assert list(read_jsonl(tmp_path / "metrics.jsonl")) == [rows[0], rows[1], rows[3]]
    assert list(read_jsonl(tmp_path / "games.jsonl")) == rows
    assert (tmp_path / "games.jsonl").stat().st_mtime_ns == before, "nothing to take back: it is not written"


def test_a_damaged_line_in_the_middle_is_named_and_nothing_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(text := json.dumps(ROWS[0]) + "\n{oops\n" + json.dumps(ROWS[1]) + "\n")
    with pytest.raises(RunError, match=r"metrics\.jsonl:2 "):
        rewind(tmp_path, {path.name: {"sft": 2}})
    assert path.read_text() == text


@pytest.mark.parametrize("asked", [None, {"player": "solver"}], ids=["plain", "with settings"])
def test_rows_come_back_in_order_once_another_process_opens_the_store(asked, stored, tmp_path: Path) -> None:
    with stored(asked) as store:
        store.add(ROWS[0])
        store.add(*ROWS[1:])
        with pytest.raises(RunError), stored(asked):
            pass
    with stored(asked) as again:
        assert list(again) == ROWS
        assert [again.keep_multiple(2), again.keep_multiple(2)] == [2, 2]
        assert list(again) == ROWS[:2]
        assert again.keep_multiple(4) == 0
        assert list(again) == []
    assert [each.name for each in (tmp_path / "new").iterdir()] == ["t.jsonl"], "the lock is gone"
    assert (tmp_path / "new" / "t.jsonl").read_text().count("\n") == bool(asked), "the settings stay"


def test_a_store_of_other_settings_is_refused_and_left_as_it_is_unless_it_is_overwritten(stored) -> None:
    with stored({"seed": 0}) as store:
        store.add(ROWS[0])
    with pytest.raises(OtherSettingsError, match="seed 0, not 1"), stored({"seed": 1}):
        pass
    with stored({"seed": 0}) as store:
        assert list(store) == ROWS[:1]
    with stored({"seed": 1}, overwrite=True) as other:
        assert list(other) == []


def test_a_first_line_without_its_break_is_written_anew(stored, tmp_path: Path) -> None:
    """A kill may cut off the break alone, and what stands before it is then of settings that nobody compared."""
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "t.jsonl").write_text('{"settings":{"seed":0}}')
    with stored({"seed": 1}):
        pass
    assert list(read_jsonl(tmp_path / "new" / "t.jsonl")) == [{"settings": {"seed": 1}}]


@pytest.mark.parametrize("text", ["dear diary", "1,2\n3,4", '{"sx'])
@pytest.mark.parametrize("asked", [None, {"seed": 0}])
def test_a_file_of_another_kind_is_left_as_it_is(text: str, asked: dict | None, tmp_path: Path) -> None:
    path = tmp_path / "mine"
    path.write_text(text)
    with pytest.raises(RunError, match="mine"):
        Store(path, asked, begins=b'{"secret":')
    assert path.read_text() == text


def test_an_unfinished_file_takes_its_name_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with unfinished(path, {"seed": 0}) as store:
        store.add(ROWS[0])
        assert not path.exists()
        for seed in (0, 1):
            with pytest.raises(RunError), unfinished(path, {"seed": seed}):
                pass
    with unfinished(path, {"seed": 0}) as store:
        assert list(store) == ROWS[:1]
        store.finish(path)
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_system_that_cannot_lock_keeps_nobody_out(tmp_path: Path, monkeypatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    with exclusive_lock(tmp_path / "file"):
        pass
    with pytest.raises(KeyError) as caught, exclusive_lock(tmp_path / "file"):
        raise KeyError("of the work itself")
    assert caught.value.__context__ is None, "a lock that cannot be had is no cause of what fails later"


PIECES = [
    b"{", b"}", b"[", b"]", b'"secret"', b":", b",", b'"crane"', b"1", b"NaN", b"1e999", b"-", b"null", b"\\ud800",
    b"\xff", b"\x00", b"\n", b"\xef\xbb\xbf", b'{"secret":"crane"}', b"[" * 5000, b'{"a":' * 3000, b"9" * 5000,
    b'"', b" ",
]  # fmt: skip
CONTENT = st.one_of(st.lists(st.sampled_from(PIECES), max_size=8).map(b"".join), st.binary(max_size=60))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=CONTENT)
@pytest.mark.parametrize("read", [lambda path: list(read_jsonl(path)), lambda path: [read_object(path)]])
def test_any_bytes_are_rows_or_one_line(read: Callable[[Path], list], content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_bytes(content)
    if told := refusal(lambda: read(path), RunError):
        assert len(told.splitlines()) == 1
        assert str(path) in told
    else:
        assert all(isinstance(row, dict) for row in read(path))
