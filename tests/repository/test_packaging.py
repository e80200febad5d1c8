"""Laws of the packages: wheel and sdist hold what they should, and the wheel works in an empty environment.

They need a package registry, for hatchling and for what the wheel depends on.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

from wordle_rl import __version__

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
STEM = f"wordle_rl-{__version__}"
WHEEL = f"{STEM}-py3-none-any.whl"
INSTALL = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")


def run(*command: str | Path, cwd: Path) -> str:
    """What a command prints, run without the path of the sources; it must succeed."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment["XDG_CACHE_HOME"] = str(cwd / "cache")
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, the wheel built from it, and in `tree` the wheel built from the sources."""
    folder = tmp_path_factory.mktemp("dist")
    build = (sys.executable, "-m", "build")
    run(*build, "--outdir", folder, ROOT, cwd=folder)
    run(*build, "--wheel", "--outdir", folder / "tree", ROOT, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def programs(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment in which nothing but the wheel was installed."""
    environment = tmp_path_factory.mktemp("empty")
    run(sys.executable, "-m", "venv", environment, cwd=built)
    run(environment / "bin" / "python", *INSTALL, built / WHEEL, cwd=built)
    return environment / "bin"


def test_the_wheel_holds_the_package_with_its_data_and_notices_also_from_the_sdist(built: Path) -> None:
    wheels = []
    for path in (built / WHEEL, built / "tree" / WHEEL):
        with zipfile.ZipFile(path) as archive:
            wheels.append({info.filename: info.CRC for info in archive.infolist()})
    names, from_sources = wheels
    assert names == from_sources
    source = ROOT / "src"
    files = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    assert {name for name in names if ".dist-info/" not in name} == {f for f in files if "__pycache__" not in f}
    licences = {Path(name).name for name in names if "/licenses/" in name}
    assert licences == {"LICENSE", "NOTICE.md", "SCOWL-NOTICE.txt"}


def test_the_sdist_holds_the_repository_and_nothing_made_in_it(built: Path) -> None:
    with tarfile.open(built / f"{STEM}.tar.gz") as archive:
        names = {name.removeprefix(f"{STEM}/") for name in archive.getnames()}
    assert {"LICENSE", "README.md", "Makefile", "tests/repository/test_packaging.py"} <= names
    made = {".venv", "runs", "site", "dist", "build", "shared", ".env", ".mypy_cache", ".git"}
    assert {name.split("/")[0] for name in names} & made == set()
    assert [name for name in names if "__pycache__" in name] == []


def test_the_address_of_the_repository_leads_to_urls_and_to_whole_links(tmp_path: Path) -> None:
    tree, address = tmp_path / "tree", "https://example.org/somebody/wordle-rl"
    for name in ("README.md", "LICENSE", "hatch_build.py", "src/wordle_rl/__init__.py"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name)
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for repository, leads in (("", set()), (address, {"Repository", "Documentation", "Changelog", "Issues"})):
        named = re.sub(r'^repository = ".*"$', f'repository = "{repository}"', settings, flags=re.MULTILINE)
        (tree / "pyproject.toml").write_text(named, encoding="utf-8")
        run(sys.executable, "-m", "build", "--wheel", tree, cwd=tmp_path)
        with zipfile.ZipFile(tree / "dist" / WHEEL) as archive:
            told = message_from_string(archive.read(f"{STEM}.dist-info/METADATA").decode())
        urls = dict(line.split(", ") for line in told.get_all("Project-URL", ()))
        assert set(urls) == leads
        assert all(url.startswith(address) for url in urls.values())
        targets = re.findall(r"\]\(([^)#]+)", str(told.get_payload()))
        assert targets
        assert [target for target in targets if not target.startswith("https://")] == ([] if leads else targets)


def test_the_commands_work_in_an_empty_environment(programs: Path, tmp_path: Path) -> None:
    run(programs / "python", "-m", "pip", "check", cwd=tmp_path)
    where = "import wordle_rl as w, importlib.util as u; print(w.__version__, u.find_spec('torch'), w.__file__)"
    version, torch, file = run(programs / "python", "-c", where, cwd=tmp_path).split()
    assert (version, torch) == (__version__, "None")
    assert Path(file).is_relative_to(programs.parent)
    program = programs / "wordle-rl"
    assert "solve" in run(program, "--help", cwd=tmp_path)
    assert json.loads(run(program, "solve", "--secret", "crane", "--json", cwd=tmp_path))["path"][-1] == "crane"
    assert json.loads(run(program, "eval", "--player", "solver", "--max-games", "3", "--json", cwd=tmp_path))


def test_a_player_and_the_presets_travel_with_the_wheel(programs: Path, built: Path, tmp_path: Path) -> None:
    wanted = ("--constraint", ROOT / "constraints.txt", "torch", f"{built / WHEEL}[train]")
    run(programs / "python", *INSTALL, *wanted, cwd=tmp_path)
    assert "CRANE" in run(programs / "wordle-rl", "play", "--player", "bundled", "--secret", "crane", cwd=tmp_path)
    small = ["--traces.num-games", "300", "--eval.max-games", "4"]
    small += ["--expert-iteration.rounds", "1", "--expert-iteration.groups-per-round", "8"]
    small += ["--grpo.steps", "1", "--grpo.groups-per-step", "2"]
    run(programs / "wordle-rl", "run", "quickstart", *small, "--out", tmp_path / "run", cwd=tmp_path)
    assert (tmp_path / "run" / "report.html").is_file()
