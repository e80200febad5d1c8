"""Laws of where packages come from: the lock has a hash for each and agrees with the constraints."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
ENTRY = re.compile(r"^([a-z0-9_.-]+)(?:\[[a-z0-9,_-]+\])?==(\S+)(.*(?:\n    .*)*)", re.MULTILINE)


def locked() -> dict[str, set[str]]:
    """Package -> versions, since some differ by version of Python."""
    found: dict[str, set[str]] = {}
    for name, version, _ in ENTRY.findall((ROOT / "requirements.lock").read_text(encoding="utf-8")):
        found.setdefault(name, set()).add(version)
    return found


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def makefile_variable(name: str) -> set[str]:
    text = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    (found,) = re.findall(rf"^{name} [:?]?= (.*)$", text, flags=re.MULTILINE)
    return set(found.split())


def test_every_package_of_the_lock_has_a_hash() -> None:
    entries = ENTRY.findall((ROOT / "requirements.lock").read_text(encoding="utf-8"))
    assert len(entries) > 100
    assert [name for name, _, rest in entries if not re.search(r"--hash=sha256:[0-9a-f]{64}", rest)] == []


def test_the_lock_holds_what_the_tests_need_and_no_build_of_cuda() -> None:
    found = locked()
    extras = project()["optional-dependencies"]
    needed = [
        Requirement(line) for line in (*project()["dependencies"], *extras["train"], *extras["openai"], *extras["dev"])
    ]
    unlocked = makefile_variable("UNLOCKED")
    assert "torch" in unlocked
    for requirement in needed:
        name = requirement.name.lower().replace("_", "-")
        if name not in unlocked:
            assert all(requirement.specifier.contains(version) for version in found[name]), name
    assert [name for name in found if name in unlocked or name.startswith(("nvidia-", "cuda-"))] == []


def test_the_lock_and_the_constraints_name_the_same_versions() -> None:
    pinned = {}
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        name, equals, version = line.partition("==")
        if equals:
            pinned[name.lower().replace("_", "-")] = version
    both = {name: versions for name, versions in locked().items() if name in pinned}
    assert len(both) > 20
    assert {name: versions for name, versions in both.items() if versions != {pinned[name]}} == {}
