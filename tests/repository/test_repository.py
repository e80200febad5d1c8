"""Laws of the files around the code: versions agree, workflows run the two commands, issue forms are well formed."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from wordle_rl import __version__

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")
INPUTS = {"checkboxes", "dropdown", "input", "textarea"}


def read(path: Path) -> dict:
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(found, dict), path
    return found


def commands(path: Path) -> list[str]:
    return [step["run"] for job in read(path)["jobs"].values() for step in job["steps"] if "run" in step]


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):(?!=)", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))


def test_the_version_is_the_same_everywhere() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+)", changelog, flags=re.MULTILINE)[0] == __version__
    assert str(read(ROOT / "CITATION.cff")["version"]) == __version__


def test_the_changelog_names_released_versions_from_new_to_old() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.findall(r"^## (\d+)\.(\d+)\.(\d+) - (\d{4}-\d\d-\d\d|unreleased)$", changelog, flags=re.MULTILINE)
    assert len(found) == len(re.findall(r"^## ", changelog, flags=re.MULTILINE))
    versions = [tuple(map(int, parts[:3])) for parts in found]
    assert versions == sorted(set(versions), reverse=True)
    assert all(date != "unreleased" for *_, date in found[1:])


def test_the_citation_has_what_its_format_requires() -> None:
    citation = read(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert citation["license"] == project["license"]
    assert [author["name"] for author in citation["authors"]] == [author["name"] for author in project["authors"]]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("test", ["make quickstart", "make test"]),
        (
            "nightly",
            [
                "make test-vllm",
                "make test-all",
                "make test-faults",
                "make test-integrations",
                "make test-mlx",
                "make test-verl",
            ],
        ),
        ("supply", ["make locked", "make vulnerabilities", "make sbom", "make test-minimum"]),
    ],
)
def test_a_workflow_runs_its_commands_and_nothing_else(name: str, expected: list[str]) -> None:
    assert commands(ROOT / ".github" / "workflows" / f"{name}.yml") == expected
    assert {command.split()[1] for command in expected} <= targets()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_is_well_formed(path: Path) -> None:
    workflow = read(path)
    assert workflow["name"] == path.stem
    assert workflow[True], "`on`, which YAML 1.1 reads as true, says when it runs"
    assert workflow["permissions"] == {"contents": "read"}
    requires = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"]
    for job in workflow["jobs"].values():
        assert job["runs-on"]
        assert job["timeout-minutes"] <= 360
        assert all(("uses" in step) != ("run" in step) for step in job["steps"])
        (python,) = [step["with"]["python-version"] for step in job["steps"] if "setup-python" in step.get("uses", "")]
        lowest, *_ = job.get("strategy", {}).get("matrix", {}).get("python", [python])
        assert requires == f">={lowest}"


def test_the_quick_tests_run_on_every_python_that_is_claimed() -> None:
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["classifiers"]
    claimed = [line.rpartition(" ")[2] for line in classifiers if re.search(r":: 3\.\d+$", line)]
    job = read(ROOT / ".github" / "workflows" / "test.yml")["jobs"]["test"]
    assert job["strategy"]["matrix"]["python"] == claimed == ["3.11", "3.12", "3.13"]
    assert job["steps"][1]["with"]["python-version"] == "${{ matrix.python }}"


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_an_issue_form_is_well_formed(path: Path) -> None:
    form = read(path)
    assert {"name", "description", "body"} <= set(form) <= {"name", "description", "title", "labels", "body"}
    inputs = [element for element in form["body"] if element["type"] != "markdown"]
    assert inputs
    assert {element["type"] for element in inputs} <= INPUTS
    assert len({element["id"] for element in inputs}) == len(inputs)
    for element in form["body"]:
        assert set(element) <= {"type", "id", "attributes", "validations"}
        assert element["attributes"]["value" if element["type"] == "markdown" else "label"]
    assert any(element.get("validations", {}).get("required") for element in inputs)


def test_forms_and_templates_exist() -> None:
    assert [path.stem for path in FORMS] == ["bug_report", "feature_request", "figure"]
    assert isinstance(read(ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml")["blank_issues_enabled"], bool)
    assert "CHANGELOG.md" in (ROOT / ".github" / "PULL_REQUEST_TEMPLATE.md").read_text(encoding="utf-8")


def test_every_make_target_that_a_document_names_exists() -> None:
    documents = [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / ".github").rglob("*.md"),
        ROOT / ".ci" / "run",
    ]
    named = {
        name for path in documents for name in re.findall(r"\bmake ([a-z][a-z-]*)(?=[`\n])", path.read_text("utf-8"))
    }
    assert {"docs", "quickstart", "test", "test-all", "test-vllm"} <= named
    assert named <= targets()


def test_the_site_is_built_strictly() -> None:
    assert re.search(
        r"^docs:.*\n\t.*mkdocs build --strict$", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE
    )
