"""Laws of the containers: the image can be built from what is here, and its commands are understood.

No engine is here to build or start them: the files are read, and their commands given to the parser they would reach.
"""

import importlib
import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import yaml
from openenv.cli.__main__ import app
from openenv.cli.commands import push
from packaging.requirements import Requirement
from typer.testing import CliRunner

from wordle_rl.cli import COMMANDS
from wordle_rl.cli.arguments import read
from wordle_rl.config.files import find_config

ROOT = Path(__file__).resolve().parents[2]


def arguments_of(instruction: str) -> list[str]:
    """Arguments of every such instruction of the Dockerfile, continued lines joined."""
    text = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    return re.findall(rf"^{instruction} (.*)$", text, flags=re.MULTILINE)


SERVICES = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
CALLS = {"image": json.loads(arguments_of("CMD")[0]), **{name: each["command"] for name, each in SERVICES.items()}}


def test_the_package_can_be_built_from_what_is_copied() -> None:
    copied = {source for line in arguments_of("COPY") for source in shlex.split(line)[:-1]}
    assert [source for source in sorted(copied) if not (ROOT / source).exists()] == []
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert {line[1:] for line in ignored if line.startswith("!")} == copied, "what reaches the engine"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    licences = {name for name in project["license-files"] if "/" not in name}
    assert {"pyproject.toml", "hatch_build.py", "README.md", *licences} <= copied
    (extras,) = re.findall(r'"\.\[([\w,]+)\]"', "\n".join(arguments_of("RUN")))
    assert set(extras.split(",")) <= set(project["optional-dependencies"])


@pytest.mark.parametrize("place", [place for place in CALLS if place != "check"])
def test_every_command_is_one_of_ours_that_takes_these_arguments(place: str) -> None:
    name, *arguments = CALLS[place]
    assert all(isinstance(word, str) for word in CALLS[place]), "YAML reads a bare number as one"
    read(COMMANDS[name].load(), f"wordle-rl {name}", arguments)
    assert name != "run" or find_config(arguments[0]).is_file()


def test_the_check_is_a_script_that_takes_these_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    check, (mounted,) = SERVICES["check"], SERVICES["check"]["volumes"]
    here, there, _ = mounted.split(":")
    script = ROOT / here / Path(check["entrypoint"][1]).relative_to(there)
    monkeypatch.syspath_prepend(str(script.parent))
    assert importlib.import_module(script.stem).make_parser().parse_args(check["command"])


SPACES = ("openenv", "space")
SPACE = ROOT / "environments" / "openenv"


@pytest.mark.parametrize("name", SPACES)
def test_a_space_serves_on_the_port_that_its_front_matter_names(name: str) -> None:
    folder = ROOT / "environments" / name
    matter = yaml.safe_load((folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)[1])
    text = (folder / "Dockerfile").read_text(encoding="utf-8")
    command, *arguments = json.loads(re.findall(r"^CMD (\[.*\])$", text, flags=re.MULTILINE)[0])[1:]
    read(COMMANDS[command].load(), f"wordle-rl {command}", arguments)
    port = arguments[arguments.index("--port") + 1]
    assert (matter["sdk"], str(matter["app_port"])) == ("docker", port)
    assert re.findall(r"^EXPOSE (\d+)$", text, flags=re.MULTILINE) == [port]
    assert f"127.0.0.1:{port}/health" in text
    assert len(matter["short_description"]) <= 60, "the hub's limit"


@pytest.mark.parametrize("name", SPACES)
def test_a_space_installs_a_requirement_that_pip_can_read(name: str) -> None:
    text = (ROOT / "environments" / name / "Dockerfile").read_text(encoding="utf-8")
    [package] = re.findall(r'^ARG PACKAGE="(.*)"$', text, flags=re.MULTILINE)
    asked = Requirement(package)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert asked.name == project["name"]
    assert "serve" in asked.extras <= {*project["optional-dependencies"]}
    assert '"${PACKAGE}"' in text, "and nothing is added to it"


class FakeHub:
    """Keeps what would be uploaded: the files of the staged directory, by path."""

    def create_repo(self, **given: object) -> None:
        self.created = given

    def upload_folder(self, *, folder_path: str, **given: object) -> None:
        root = Path(folder_path)
        found = [path for path in root.rglob("*") if path.is_file()]
        self.files = {str(path.relative_to(root)): path.read_text("utf-8") for path in found}


def test_openenv_push_takes_the_directory_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = FakeHub()
    monkeypatch.setattr(push, "HfApi", lambda: hub)
    monkeypatch.setattr(push, "whoami", lambda: {"name": "somebody"})
    done = CliRunner().invoke(app, ["push", str(SPACE), "--no-interface"])
    assert done.exit_code == 0, done.output
    assert (hub.created["repo_id"], hub.created["space_sdk"]) == ("somebody/wordle_rl", "docker")
    assert set(hub.files) >= {"Dockerfile", "README.md", "openenv.yaml", "pyproject.toml", "__init__.py", "client.py"}
    assert hub.files["Dockerfile"] == (SPACE / "Dockerfile").read_text("utf-8")
    matter = yaml.safe_load(hub.files["README.md"].split("---\n", 2)[1])
    assert (matter["sdk"], matter["app_port"]) == ("docker", 8000)
