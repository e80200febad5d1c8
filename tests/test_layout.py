"""Laws of the tests' own files: they lie as the rooms do, and what they share is in tests/support."""

import ast
from pathlib import Path

TESTS = Path(__file__).resolve().parent
PACKAGE = TESTS.parent / "src" / "wordle_rl"
FILES = sorted(TESTS.rglob("test_*.py"))
SHARED = sorted([*(TESTS / "support").glob("*.py"), *TESTS.rglob("conftest.py")])

NO_ROOMS = {"benchmarks", "docs", "examples", "faults", "repository", "scripts"}
"""Directories of tests about what lies beside the package."""

NO_FILES = {"test_imports.py", "test_language.py", "test_layout.py"}
"""Tests about all rooms."""

LAUNCHED = {"sharded_training", "two_processes", "verl_cpu", "verl_cpu_server"}
"""Shared files that are started as programs, or that verl is told to import."""

MOST_LINES = 400


def has_a_namesake(path: Path) -> bool:
    """Find the file, or the room, that a test file is named for."""
    room = PACKAGE / path.parent.relative_to(TESTS)
    about = path.stem.removeprefix("test_")
    modules = {module.stem for module in room.iterdir()} | {room.name} if room.is_dir() else set()
    return any(about == module or about.startswith(f"{module}_") for module in modules)


def test_a_test_file_is_named_for_a_file_of_its_room() -> None:
    """`tests/<room>/test_<file>.py`, or `test_<file>_<topic>.py` where a file has more than one topic."""
    about_rooms = [path for path in FILES if path.relative_to(TESTS).parts[0] not in NO_ROOMS | NO_FILES]
    assert len(about_rooms) > 80
    assert [path for path in about_rooms if not has_a_namesake(path)] == []


def imported(path: Path) -> set[str]:
    """First names of the modules that a file imports, inside its functions too."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports relatively"
            names.add(str(node.module).split(".")[0])
    return names


def test_nothing_imports_from_a_test_file() -> None:
    tests = {path.stem for path in FILES} | {"tests", "conftest"}
    assert {path.name: imported(path) & tests for path in (*FILES, *SHARED) if imported(path) & tests} == {}


def test_what_is_shared_is_used() -> None:
    used = {name for path in (*FILES, *SHARED) for name in imported(path)}
    assert {path.stem for path in SHARED} - used - LAUNCHED - {"conftest"} == set()


def test_no_test_file_is_longer_than_a_room_may_be() -> None:
    assert [path.name for path in FILES if len(path.read_text("utf-8").splitlines()) > MOST_LINES] == []
