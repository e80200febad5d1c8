"""Laws of the packages: wheel and sdist hold what they should, and the wheel works in an empty environment.

They need a package registry, for hatchling and for what the wheel depends on.
"""

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from wordle_rl import __version__

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
STEM = f"wordle_rl-{__version__}"


def run(*command: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command without the path of the sources; it must succeed."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, the wheel built from it, and in `tree` the wheel built from the sources."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    run(sys.executable, "-m", "build", "--wheel", "--outdir", folder / "tree", ROOT, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def programs(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment in which nothing but the wheel was installed."""
    environment = tmp_path_factory.mktemp("empty")
    run(sys.executable, "-m", "venv", environment, cwd=built)
    bin = environment / "bin"
    run(bin / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel(built), cwd=built)
    return bin


def wheel(folder: Path) -> Path:
    return folder / f"{STEM}-py3-none-any.whl"


def contents(path: Path) -> dict[str, int]:
    """Name -> checksum of every file of a wheel."""
    with zipfile.ZipFile(path) as archive:
        return {info.filename: info.CRC for info in archive.infolist()}


def in_sdist(built: Path) -> set[str]:
    with tarfile.open(built / f"{STEM}.tar.gz") as archive:
        return {name.removeprefix(f"{STEM}/") for name in archive.getnames()}


def test_the_wheel_is_the_same_from_sources_and_from_the_sdist(built: Path) -> None:
    assert contents(wheel(built)) == contents(wheel(built / "tree"))


def test_the_wheel_holds_the_package_with_its_data_and_notices(built: Path) -> None:
    names = set(contents(wheel(built)))
    package = ROOT / "src" / "wordle_rl"
    sources = {f"wordle_rl/{path.relative_to(package)}" for path in package.rglob("*") if path.is_file()}
    sources = {name for name in sources if "__pycache__" not in name}
    assert {name for name in names if name.startswith("wordle_rl/")} == sources
    assert {name.split("/")[0] for name in names} == {"wordle_rl", f"{STEM}.dist-info"}
    assert any(name.endswith("/answers.txt") for name in names)
    licences = {Path(name).name for name in names if name.startswith(f"{STEM}.dist-info/licenses/")}
    assert licences == {"LICENSE", "NOTICE.md", "SCOWL-NOTICE.txt"}


def test_the_sdist_holds_the_repository_and_nothing_made_in_it(built: Path) -> None:
    names = in_sdist(built)
    assert {"LICENSE", "README.md", "Makefile", "src/wordle_rl/config/presets/quickstart.toml"} <= names
    assert {"src/wordle_rl/py.typed", "tests/repository/test_packaging.py", ".github/workflows/test.yml"} <= names
    made = {".venv", "runs", "site", "dist", "build", "shared", ".env", ".mypy_cache", ".git"}
    assert {name.split("/")[0] for name in names} & made == set()
    assert [name for name in names if "__pycache__" in name] == []


def test_the_commands_work_in_an_empty_environment(programs: Path, tmp_path: Path) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    run(programs / "python", "-m", "pip", "check", cwd=tmp_path)
    where = "import wordle_rl as w, importlib.util as u; print(w.__version__, u.find_spec('torch'), w.__file__)"
    version, torch, file = run(programs / "python", "-c", where, cwd=tmp_path).stdout.split()
    assert (version, torch) == (__version__, "None")
    assert Path(file).is_relative_to(programs.parent)
    assert "solve" in run(programs / "wordle-rl", "--help", cwd=tmp_path).stdout
    solved = run(programs / "wordle-rl", "solve", "--secret", "crane", "--json", cwd=tmp_path, **cache).stdout
    assert json.loads(solved)["path"][-1] == "crane"
    played = run(
        programs / "wordle-rl", "eval", "--player", "solver", "--max-games", "3", "--json", cwd=tmp_path, **cache
    ).stdout
    assert json.loads(played)


def test_a_player_and_the_presets_travel_with_the_wheel(programs: Path, built: Path, tmp_path: Path) -> None:
    pip = (programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, "--constraint", ROOT / "constraints.txt", "torch", f"{wheel(built)}[train]", cwd=tmp_path)
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = (programs / "wordle-rl", "play", "--player", "bundled", "--secret", "crane")
    assert "found: CRANE" in run(*command, cwd=tmp_path, **cache).stdout
    small = ["--traces.num-games", "300", "--rl.rounds", "1", "--rl.groups-per-round", "8", "--eval.max-games", "4"]
    run(programs / "wordle-rl", "run", "quickstart", *small, "--out", tmp_path / "run", cwd=tmp_path, **cache)
    assert (tmp_path / "run" / "report.html").is_file()
