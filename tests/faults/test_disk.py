"""Laws of disks that are full, read-only, or lose files, and of words, settings and clocks that change.

Each is one line, damages nothing that is written, and once it is mended the same command ends with the same files.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("openai")

from fork_server import Ended
from kills import Case, Unbroken, check_ends, check_same, make_case, run_unbroken, snapshot

pytestmark = pytest.mark.faults

FULL = {
    "traces": (0.5,),
    "traces-openai": (0.5,),
    "eval-openai": (0.5,),
    "sft": (0.02, 0.4, 0.9),
    "grpo": (0.1, 0.6),
    "distill": (0.1, 0.6),
    "run": (0.95,),
}
"""Of what a command writes, the fraction there is room for."""


LOOKS_EMPTY = "import shutil; usage = shutil.disk_usage('/'); shutil.disk_usage = lambda _: usage"
"""Of a disk that another program fills after the run has looked."""


@pytest.fixture(scope="module")
def unbroken_runs() -> dict[str, Unbroken]:
    return {}


@pytest.fixture
def disk(tmp_path) -> Iterator[Path]:
    """A small disk of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    if _mount("-t", "tmpfs", "-o", "size=64m", "none", place):
        pytest.skip("no disk can be mounted here (that needs root)")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def _mount(*arguments: object) -> int:
    """Call `mount`; its exit code."""
    program = shutil.which("mount")
    return 1 if program is None else subprocess.run([program, *map(str, arguments)], capture_output=True).returncode


@pytest.fixture
def prepared(fork_server, word_directory, taught, endpoint, unbroken_runs, tmp_path):
    """A case by name, and an unbroken run of it."""

    def make(name: str, words: Path = word_directory) -> tuple[Case, Unbroken]:
        case = make_case(name, words, taught, endpoint)
        if name not in unbroken_runs:
            unbroken_runs[name] = run_unbroken(fork_server, case, tmp_path / "unbroken")
        return case, unbroken_runs[name]

    return make


def check_one_line(ended: Ended, *told: str) -> None:
    """The command was refused, and tells of one error in one line with these words in it."""
    log = ended.log
    assert ended.code == 2, log
    errors = [line for line in log.splitlines() if line.startswith("error:")]
    assert len(errors) == 1, log
    assert "Traceback" not in log
    for text in told:
        assert text in errors[0], log


def size_of(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def contents(directory: Path) -> dict[Path, bytes]:
    """All files but locks, which a kill leaves and the next command takes away."""
    return {
        path: path.read_bytes() for path in directory.rglob("*") if path.is_file() and not path.name.endswith(".lock")
    }


@pytest.mark.parametrize(("name", "fraction"), [(name, part) for name, parts in FULL.items() for part in parts])
def test_a_full_disk_is_one_line_and_loses_nothing(name, fraction, prepared, fork_server, disk) -> None:
    case, unbroken = prepared(name)
    place = case.begun_in(disk / "work")
    room = int(unbroken.num_bytes * fraction) - size_of(place)
    filler = disk / "filler"
    with filler.open("wb") as file:
        status = os.statvfs(disk)
        file.write(b"\0" * (status.f_bavail * status.f_frsize - max(room, 8192)))
    ended = case.run(fork_server, place, before=LOOKS_EMPTY)
    check_one_line(ended, "No space left" if "space left" in ended.log else "cannot")
    filler.unlink()
    check_ends(fork_server, case, place, unbroken, f"full at {fraction}")


@pytest.mark.parametrize("limit", [20_000, 60_000])
def test_a_limit_on_the_size_of_files_is_one_line_and_loses_nothing(limit, prepared, fork_server, tmp_path) -> None:
    """A full disk without one of one's own: the kernel refuses what makes a file too long."""
    case, unbroken = prepared("sft")
    place = case.begun_in(tmp_path / "limited")
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))"
    ended = case.run(fork_server, place, before=limited)
    check_one_line(ended, "cannot")
    check_ends(fork_server, case, place, unbroken, f"files of {limit} bytes")


@pytest.mark.parametrize("name", ["traces", "traces-openai", "eval-openai", "sft", "grpo"])
def test_a_directory_that_became_read_only_is_one_line(name, prepared, fork_server, disk) -> None:
    case, unbroken = prepared(name)
    place = case.begun_in(disk / "work")
    writes = unbroken.ended.num_writes
    assert case.run(fork_server, place, kill_at_write=writes // 2).code is None
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    assert _mount("-o", "remount,ro", disk) == 0
    ended = case.run(fork_server, place)
    check_one_line(ended, "Read-only file system")
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before
    assert _mount("-o", "remount,rw", disk) == 0
    check_ends(fork_server, case, place, unbroken, "read-only for a while")


@pytest.mark.parametrize(
    ("deleted", "told"),
    [
        ("checkpoints/checkpoint-3/optimizer.pt", "optimizer.pt is missing"),
        ("checkpoints/checkpoint-3/model.safetensors", "model.safetensors is missing"),
        ("checkpoints/checkpoint-3", ""),
        ("../traces.jsonl", ""),
        ("../metrics.jsonl", None),
        ("../manifest.json", "config.json"),
    ],
)
def test_a_deleted_file_is_made_again_or_named_in_one_line(deleted, told, prepared, fork_server, tmp_path) -> None:
    case, unbroken = prepared("sft")
    place = case.begun_in(tmp_path / "deleted")
    moment = "wordle_rl.train.training_loop:complete_checkpoint:after:1"
    assert case.run(fork_server, place, kill_at=moment).code is None
    gone = place / "run" / "sft" / deleted
    shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    ended = case.run(fork_server, place)
    if told:
        check_one_line(ended, told)
        return
    assert ended.code == 0, ended.log
    found = snapshot(place)
    same = dict(unbroken.files)
    if told is None:  # a log that is gone is gone, and its model counts the rows left; what is trained is the same
        for files in (found, same):
            for name in ("metrics.jsonl", "sft/wordle_rl.json", "sft/wordle_rl_files.json"):
                del files[f"run/{name}"]
    check_same(same, found, f"{deleted} deleted")


def test_a_run_that_is_deleted_while_it_works_is_one_line(prepared, fork_server, tmp_path) -> None:
    case, _ = prepared("sft")
    case.begun_in(tmp_path)
    removing = (
        "import shutil; from wordle_rl.train.training_loop import TrainingLoop as C; write = C.write\n"
        "def removed(self, step, numbers):\n"
        "    shutil.rmtree('run', ignore_errors=True) if step > 4 else None\n"
        "    write(self, step, numbers)\n"
        "C.write = removed"
    )
    ended = case.run(fork_server, tmp_path, before=removing)
    check_one_line(ended, "run/metrics.jsonl", "No such file or directory")


@pytest.mark.parametrize("jump_s", [-90_000, 90_000])
@pytest.mark.parametrize("name", ["sft", "eval-openai"])
def test_a_clock_that_is_set_changes_nothing(name, jump_s, prepared, fork_server, tmp_path) -> None:
    case, unbroken = prepared(name)
    place = case.begun_in(tmp_path / "jumped")
    jumping = (
        "import time; real, calls = time.time, []\n"
        f"time.time = lambda: real() + {jump_s} * (len(calls) % 2) + (calls.append(0) or 0)"
    )
    ended = case.run(fork_server, place, before=jumping)
    assert ended.code == 0, ended.log
    check_same(unbroken.files, snapshot(place, case.unordered), f"a jump of {jump_s} s")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("sft", "holds a run with other words"),
        ("traces-openai", "holds games of m by other settings (words"),
        ("eval-openai", "holds games with words"),
    ],
)
def test_words_that_changed_are_refused_in_one_line(
    name, told, prepared, fork_server, word_directory, tmp_path
) -> None:
    words = Path(shutil.copytree(word_directory, tmp_path / "words"))
    case = prepared(name, words)[0]
    place = case.begun_in(tmp_path / "changed")
    first = run_unbroken(fork_server, case, tmp_path / "measured") if name != "sft" else prepared(name)[1]
    assert case.run(fork_server, place, kill_at_write=first.ended.num_writes * 3 // 4).code is None
    before = contents(place)
    answers = (words / "answers.txt").read_text().split()
    (words / "answers.txt").write_text("\n".join(answers[:-1]) + "\n")
    ended = case.run(fork_server, place)
    check_one_line(ended, told)
    assert contents(place) == before


def test_settings_that_changed_are_refused_in_one_line(prepared, fork_server, tmp_path) -> None:
    case, unbroken = prepared("sft")
    case.begun_in(tmp_path)
    killed = case.run(fork_server, tmp_path, kill_at_write=unbroken.ended.num_writes // 2)
    assert killed.code is None
    before = contents(tmp_path)
    ended = fork_server.run([*case.arguments, "--sft.batch-size", "16"], tmp_path)
    check_one_line(ended, "holds a run with other settings (sft.batch_size: 32, now 16)")
    assert contents(tmp_path) == before
    assert case.run(fork_server, tmp_path).code == 0
