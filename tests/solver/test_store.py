from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from wordle_rl.solver import Solver, Tree, exact, marks_matrix
from wordle_rl.solver.store import read_sealed, write_sealed
from wordle_rl.words import WordList

RHYMES = ["bight", "eight", "fight", "light", "might", "night", "right", "sight"]


def make_solver(answers: Sequence[str], extra: Sequence[str], cache_dir: Path) -> Solver:
    return Solver(WordList("made up", tuple(answers), tuple({*answers, *extra})), cache_dir=cache_dir)


@pytest.fixture
def forbid_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make building a matrix or a tree an error, so that only the cache can answer."""

    def refuse(*_: object) -> None:
        raise AssertionError("built although it was in the cache")

    monkeypatch.setattr(exact, "marks_matrix", refuse)
    monkeypatch.setattr(exact, "grow_tree", refuse)


def fill_cache(directory: Path) -> tuple[np.ndarray, Tree]:
    solver = make_solver(RHYMES, ["blfmn"], directory)
    return np.array(solver.matrix), solver.tree("eight")


def test_second_solver_reads_the_cache(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    matrix, tree = fill_cache(tmp_path)
    request.getfixturevalue("forbid_work")
    matrix_again, tree_again = fill_cache(tmp_path)
    np.testing.assert_array_equal(matrix, matrix_again)
    assert tree == tree_again


@pytest.mark.parametrize("pattern", ["matrix-*.npy", "tree-*.tree"])
@pytest.mark.parametrize("damage", ["empty", "short", "cut", "flipped", "garbage", "longer"])
def test_a_damaged_file_is_rebuilt(tmp_path: Path, pattern: str, damage: str) -> None:
    matrix, tree = fill_cache(tmp_path)
    (path,) = tmp_path.glob(pattern)
    sound = path.read_bytes()
    middle = len(sound) // 2
    path.write_bytes(
        {
            "empty": b"",
            "short": sound[:20],
            "cut": sound[:-1],
            "flipped": sound[:middle] + bytes([sound[middle] ^ 1]) + sound[middle + 1 :],
            "garbage": b"\x00garbage" * 100,
            "longer": sound + b"\x00",
        }[damage]
    )
    matrix_again, tree_again = fill_cache(tmp_path)
    np.testing.assert_array_equal(matrix, matrix_again)
    assert tree == tree_again
    assert path.read_bytes() == sound


def test_a_file_of_other_words_is_not_taken(tmp_path: Path) -> None:
    for directory, words in (("one", ["cat", "cot"]), ("two", ["dog", "dig"])):
        solver = make_solver(words, [], tmp_path / directory)
        solver.tree(words[0])
    for pattern in ("matrix-*", "tree-*"):
        (ours,), (theirs,) = (tmp_path / "one").glob(pattern), (tmp_path / "two").glob(pattern)
        ours.write_bytes(theirs.read_bytes())
    solver = make_solver(["cat", "cot"], [], tmp_path / "one")
    np.testing.assert_array_equal(solver.matrix, marks_matrix(["cat", "cot"], ["cat", "cot"]))
    assert set(solver.tree("cat").paths) == {"cat", "cot"}


def test_a_write_that_breaks_off_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    write_sealed(path, "label", [b"old"])

    def broken_parts() -> Iterator[bytes]:
        yield b"new, first half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_sealed(path, "label", broken_parts())
    assert read_sealed(path, "label") == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_refused_write_is_logged_and_play_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", refuse)
    assert make_solver(RHYMES, [], tmp_path).tree("eight").num_failed == 2
    assert "disk full" in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_read_is_done_without(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    matrix, _ = fill_cache(tmp_path)
    [path] = tmp_path.glob("matrix-*")
    path.unlink()
    path.mkdir()
    np.testing.assert_array_equal(make_solver(RHYMES, ["blfmn"], tmp_path).matrix, matrix)
    assert "cannot be read" in caplog.text
