"""Laws of the containers: the image can be built from what is here, and its commands are understood.

No engine is here to build or start them: the files are read, and their commands given to the parser they would reach.
"""

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import yaml

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
COPIED = {source for line in arguments_of("COPY") for source in shlex.split(line)[:-1]}


def test_every_file_that_is_copied_exists_and_reaches_the_engine() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert {line[1:] for line in ignored if line.startswith("!")} == COPIED
    assert [source for source in sorted(COPIED) if not (ROOT / source).exists()] == []


def test_the_package_can_be_built_from_what_is_copied() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {
        "pyproject.toml",
        project["readme"],
        *(name for name in project["license-files"] if "/" not in name),
    } <= COPIED
    (extras,) = re.findall(r'"\.\[([\w,]+)\]"', "\n".join(arguments_of("RUN")))
    assert set(extras.split(",")) <= set(project["optional-dependencies"])


@pytest.mark.parametrize("place", CALLS)
def test_every_command_is_one_of_ours_that_takes_these_arguments(place: str) -> None:
    name, *arguments = [str(word) for word in CALLS[place]]
    read(COMMANDS[name].load(), f"wordle-rl {name}", arguments)
    for word in CALLS[place]:
        assert isinstance(word, str), "YAML reads a bare number as one"
    if name == "run":
        assert find_config(arguments[0]).is_file()
