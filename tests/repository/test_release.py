"""Laws of a release: one version and one address of the repository, wherever they are written; a card to send."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from wordle_rl import __version__
from wordle_rl.report.hub import push

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = {
    "CITATION.cff": r"^version: (.+)$",
    "CHANGELOG.md": r"\A[^#]*# Changelog[^#]*## (\S+)",
    "environments/openenv/openenv.yaml": r"^version: (.+)$",
    "environments/openenv/pyproject.toml": r'^version = "(.+)"$',
    "environments/openenv/Dockerfile": r"==([\d.]+)|wordle_rl-([\d.]+)-py3",
    "environments/space/Dockerfile": r"==([\d.]+)|wordle_rl-([\d.]+)-py3",
    "docs/sharing.md": r"wordle_rl-([\d.]+)-py3",
    "CONTRIBUTING.md": r"\bv(\d[\d.]+\d)\b|wordle-rl (\d[\d.]+\d)",
}
"""File -> pattern of the versions in it."""
REPOSITORY = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["metadata"]["hooks"][
    "custom"
]["repository"]


@pytest.mark.parametrize("name", VERSIONS)
def test_every_file_that_names_a_version_names_this_one(name: str) -> None:
    found = re.findall(VERSIONS[name], (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE)
    named = {"".join(each) for each in found}
    assert named == {__version__}


def test_the_citation_names_the_address_that_the_package_has() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation.get("repository-code", "") == REPOSITORY
    assert {"cff-version", "message", "title", "authors", "license"} <= set(citation)


def front_matter(card: Path) -> dict[str, object]:
    return yaml.safe_load(card.read_text(encoding="utf-8").split("---\n", 2)[1])


def test_the_bundled_player_can_be_sent_with_its_card() -> None:
    files = push(Path("bundled"), "somebody/wordle-bundled", dry_run=True)
    assert {"README.md", "config.json", "model.safetensors", "tokenizer.json", "wordle_rl.json"} <= set(files)
    card = ROOT / "src" / "wordle_rl" / "policy" / "bundled" / "README.md"
    assert (front_matter(card)["license"], front_matter(card)["library_name"]) == ("mit", "transformers")
