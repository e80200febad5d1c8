"""Laws of runs that are read as they grow: no game is read twice, none is left out, half a line is no game yet."""

import json
from pathlib import Path

import pytest
from report_runs import make_run, training_game

from wordle_rl.serve.watch import run_files
from wordle_rl.serve.watch.run_files import every_game, find_runs, games_of, mark_of, read_lines, sources_of, version_of


def write(path: Path, rows: list[dict], mode: str = "w") -> None:
    with path.open(mode, encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def test_what_is_new_is_read_from_where_the_last_reading_ended(tmp_path: Path) -> None:
    path = tmp_path / "games.jsonl"
    write(path, [training_game(step) for step in (1, 2)])
    first = read_lines(path, 0)
    assert [game["step"] for game in first["games"]] == [1, 2]
    assert first["next"] == first["size"] == path.stat().st_size
    version = version_of(path)
    write(path, [training_game(3)], "a")
    assert version_of(path) == version
    second = read_lines(path, first["next"])
    assert [game["step"] for game in second["games"]] == [3]
    assert second["games"][0]["id"] == first["next"]
    with path.open("a") as file:
        file.write(json.dumps(training_game(4))[:40])
    half = read_lines(path, second["next"])
    assert (half["games"], half["next"], half["faults"]) == ([], second["next"], [])
    path.rename(tmp_path / "old")
    write(path, [training_game(1)])
    assert version_of(path) != version, "a file made anew"


def test_chunks_join_to_the_whole_file(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(run_files, "CHUNK_BYTES", 700)
    path = tmp_path / "run" / "games.jsonl"
    path.parent.mkdir()
    write(path, [training_game(step, reply="x" * (step % 5) * 200) for step in range(30)])
    source = sources_of(path.parent)["games"]
    assert len(games_of(source)["games"]) < 30
    assert [game["step"] for game in every_game(source)] == list(range(30))


def test_of_a_long_file_the_end_is_read(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(run_files, "TAIL_BYTES", 1000)
    path = tmp_path / "games.jsonl"
    write(path, [training_game(step) for step in range(30)])
    found = read_lines(path, 0)
    assert 0 < len(found["games"]) < 10
    assert found["games"][-1]["step"] == 29
    assert found["skipped"] == found["games"][0]["id"]
    assert read_lines(path, found["games"][0]["id"])["games"] == found["games"]


UNMARKED = '{"secret": "crane", "turns": [{"guess": ["x"], "marks": null}]}'


@pytest.mark.parametrize("line", ["{", '{"secret": "crane"}', UNMARKED, "\xff"])
def test_a_damaged_line_is_named_and_the_others_are_read(tmp_path: Path, line: str) -> None:
    path = tmp_path / "games.jsonl"
    good = json.dumps(training_game(1))
    path.write_text(f"{good}\n{line}\n{good}\n", encoding="utf-8")
    found = read_lines(path, 0)
    assert len(found["games"]) == 2
    (told,) = found["faults"]
    assert told.startswith(f"games.jsonl, byte {len(good) + 1}: ")


def test_runs_are_found_by_name_in_a_directory_or_as_one(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs" / "one")
    (tmp_path / "runs" / "notes").mkdir()
    assert find_runs(tmp_path / "runs") == {"one": run}
    assert find_runs(run) == {"one": run}
    assert find_runs(tmp_path / "nothing") == {}


def test_a_change_of_any_file_changes_the_mark(tmp_path: Path) -> None:
    run = make_run(tmp_path / "one")
    marks = [mark_of(run), mark_of(run)]
    assert marks[0] == marks[1]
    for name in ("games.jsonl", "metrics.jsonl", "strata.json", "controls/more.json", "grpo/selected.json"):
        (run / name).parent.mkdir(exist_ok=True)
        write(run / name, [training_game(9)], "a")
        marks.append(mark_of(run))
    (run / "eval" / "sft.json").unlink()
    assert len({*marks, mark_of(run)}) == 7
