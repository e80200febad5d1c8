"""Laws of solver games while they are written: whole chunks are kept, the rest is played again."""

import json
from pathlib import Path

import pytest

import wordle_rl.teachers.games as games_module
from wordle_rl.config.model import GameSettings
from wordle_rl.config.teachers import TeacherSettings, TraceSettings
from wordle_rl.teachers.games import write_own_teacher_traces, write_solver_traces

PLAIN = TraceSettings(num_games=18, teacher=TeacherSettings(opener=None, noise_rate=0.5))
LETTERS = PLAIN.model_copy(update={"outside_rate": 0.2, "pseudo_rate": 0.4})


class StoppedError(Exception):
    pass


@pytest.fixture
def play(split, solver, monkeypatch):
    """Have the teacher write a file, stopped when so many games are done; tells of how many it knew as it went."""
    monkeypatch.setattr(games_module, "_CHUNK", 4)

    def write(path: Path, settings=PLAIN, stop_at: int | None = None, seed: int = 0) -> list[int]:
        told = []

        def count(done: int) -> None:
            told.append(done)
            if done == stop_at:
                raise StoppedError

        write_solver_traces(path, split, solver, settings, seed, count)
        return told

    return write


def hidden(directory: Path) -> list[str]:
    return sorted(path.suffix for path in directory.iterdir() if path.name.startswith("."))


@pytest.mark.parametrize("settings", [PLAIN, LETTERS], ids=["plain", "letters as secrets"])
@pytest.mark.parametrize("stop_at", [0, 12])
def test_stopped_and_resumed_games_are_those_of_one_call(settings, stop_at, play, tmp_path: Path) -> None:
    play(tmp_path / "whole.jsonl", settings)
    with pytest.raises(StoppedError):
        play(tmp_path / "parts.jsonl", settings, stop_at)
    assert not (tmp_path / "parts.jsonl").exists()
    assert play(tmp_path / "parts.jsonl", settings)[0] == min(stop_at, 16)
    assert (tmp_path / "parts.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert hidden(tmp_path) == []


def test_half_a_chunk_is_played_again(play, tmp_path: Path) -> None:
    play(tmp_path / "whole.jsonl", LETTERS)
    with pytest.raises(StoppedError):
        play(tmp_path / "t.jsonl", LETTERS, 8)
    [rows] = tmp_path.glob(".*.unfinished")
    lines = rows.read_bytes().splitlines(keepends=True)
    rows.write_bytes(b"".join([*lines, *lines[:3]])[:-7])
    assert play(tmp_path / "t.jsonl", LETTERS)[0] == 8
    assert (tmp_path / "t.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_games_of_other_settings_are_of_no_use_and_removed(play, tmp_path: Path) -> None:
    for seed in (0, 1):
        with pytest.raises(StoppedError):
            play(tmp_path / "t.jsonl", LETTERS, 8, seed=seed)
        assert hidden(tmp_path) == [".unfinished"]
    assert play(tmp_path / "t.jsonl", PLAIN)[0] == 0
    assert hidden(tmp_path) == []


RANDOM_TEACHER = """
import random

class Drawn:
    def __init__(self, words, seed):
        self.words, self.rng = words.guesses, random.Random(seed)

    def __call__(self, boards):
        return [self.rng.choice(self.words) for _ in boards]
"""


def test_a_teacher_of_your_own_plays_on_as_if_it_had_not_stopped(split, solver, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(games_module, "_OWN_CHUNK", 4)
    monkeypatch.chdir(tmp_path)
    Path("drawn_teacher.py").write_text(RANDOM_TEACHER)
    teacher = TeacherSettings(name="drawn_teacher:Drawn")

    def write(name: str, stop_at: int = 0) -> bytes:
        def count(done: int) -> None:
            if done == stop_at:
                raise StoppedError

        write_own_teacher_traces(Path(name), solver.words, split.train[:12], teacher, GameSettings(), 0, count)
        return Path(name).read_bytes()

    whole = write("whole.jsonl")
    with pytest.raises(StoppedError):
        write("parts.jsonl", stop_at=9)
    assert write("parts.jsonl") == whole
    first = [json.loads(row)["turns"][0]["guess"] for row in whole.splitlines()]
    assert first[:4] != first[4:8] != first[8:]
