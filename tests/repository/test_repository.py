"""Laws of the files around the code: one version everywhere, and every make target that is named exists."""

import re
import tomllib
from pathlib import Path

import yaml

from wordle_rl import __version__

ROOT = Path(__file__).resolve().parents[2]
SPACE = ROOT / "environments" / "openenv"


def test_the_version_is_the_same_everywhere() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+)", changelog, flags=re.MULTILINE)[0] == __version__
    for path in (ROOT / "CITATION.cff", SPACE / "openenv.yaml"):
        assert str(yaml.safe_load(path.read_text(encoding="utf-8"))["version"]) == __version__
    assert tomllib.loads((SPACE / "pyproject.toml").read_text("utf-8"))["project"]["version"] == __version__
    assert f"wordle-rl[serve]=={__version__}" in (SPACE / "Dockerfile").read_text("utf-8")


def test_every_make_target_that_a_document_or_a_workflow_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):(?!=)", makefile, flags=re.MULTILINE))
    files = [ROOT / ".ci" / "run", *ROOT.glob("*.md")]
    files += [path for folder in ("docs", ".github") for path in (ROOT / folder).rglob("*.[my]*") if path.is_file()]
    named = {name for path in files for name in re.findall(r"\bmake ([a-z][a-z-]*)(?=[`\n])", path.read_text("utf-8"))}
    assert {"quickstart", "test", "test-all", "locked"} <= named
    assert named <= targets
