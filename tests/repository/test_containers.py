"""Laws of the containers: the image can be built from what is here, and its services understand each other.

No engine is here to build or start them: the files are read, and their commands given to the parser they would reach.
"""

import fnmatch
import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from wordle_rl.__main__ import further_commands
from wordle_rl.cli import COMMANDS
from wordle_rl.cli.program import Program

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "WORDLE_TOKEN"
NAMES_OF_SECRETS = re.compile(r"token|secret|password|passwd|api_?key|credential", re.IGNORECASE)


def instructions(path: Path = ROOT / "Dockerfile") -> list[tuple[str, str]]:
    """Instructions of a Dockerfile with their arguments, comments left out and continued lines joined."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]


def stages() -> dict[str, list[tuple[str, str]]]:
    """Instructions of each stage by its name; the last one has none."""
    found: dict[str, list[tuple[str, str]]] = {}
    name = "before"
    for instruction in instructions():
        if instruction[0] == "FROM":
            name = instruction[1].partition(" AS ")[2] or "image"
        found.setdefault(name, []).append(instruction)
    return found


def compose(name: str = "compose.yaml") -> dict[str, Any]:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


SERVICES = compose()["services"]
[DEFAULT_COMMAND] = [json.loads(rest) for name, rest in instructions() if name == "CMD"]
CALLS = {"image": DEFAULT_COMMAND, **{name: service["command"] for name, service in SERVICES.items()}}


def option(call: list[str], name: str) -> str:
    return call[call.index(name) + 1]


def copied() -> list[str]:
    """Sources of every COPY; none comes from another stage."""
    words = [shlex.split(rest) for name, rest in instructions() if name == "COPY"]
    assert not [word for line in words for word in line if word.startswith("--")]
    return [source for line in words for source in line[:-1]]


def test_every_file_that_is_copied_exists_and_reaches_the_engine() -> None:
    patterns = [line for line in (ROOT / ".dockerignore").read_text().split("\n") if line and not line.startswith("#")]
    assert patterns[0] == "*", "nothing goes along but what is named"
    kept = {pattern[1:] for pattern in patterns if pattern.startswith("!")}
    assert kept == set(copied())
    for source in copied():
        assert (ROOT / source).exists(), source
    left_out = [pattern for pattern in patterns[1:] if not pattern.startswith("!")]
    assert any(fnmatch.fnmatch("src/.env", pattern) for pattern in left_out)


def test_the_package_can_be_built_from_what_is_copied() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {"pyproject.toml", project["readme"], *(name for name in project["license-files"] if "/" not in name)}
    assert needed <= set(copied())
    [install] = [rest for name, rest in stages()["image"] if name == "RUN"]
    [extras] = re.findall(r'"\.\[([\w,]+)\]"', install)
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    assert {"train", "serve"} <= set(extras.split(","))


def test_torch_is_the_tested_one_and_comes_before_what_would_bring_another() -> None:
    assert re.search(r"^torch==[\d.]+$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    found = stages()
    assert found["before"] == [("ARG", "DEVICE=cpu")]
    assert found["image"][0] == ("FROM", "torch-${DEVICE}")
    for device, index in (("cpu", "https://download.pytorch.org/whl/cpu"), ("cuda", None)):
        [(_, start), (_, run)] = found[f"torch-{device}"]
        assert start == f"base AS torch-{device}"
        words = shlex.split(run)
        assert words[:2] == ["pip", "install"]
        assert words[-1] == "torch"
        assert option(words, "--constraint") == "constraints.txt"
        assert ("--index-url" in words) == (index is not None)
        if index is not None:
            assert option(words, "--index-url") == index
    assert "--constraint constraints.txt" in next(rest for name, rest in found["image"] if name == "RUN")


def test_the_image_runs_as_nobody_in_particular() -> None:
    image = stages()["image"]
    users = [(place, rest) for place, (name, rest) in enumerate(image) if name == "USER"]
    [(place, user)] = users
    assert int(user) > 0
    assert not {"RUN", "COPY", "ADD"} & {name for name, _ in image[place:]}
    [install] = [rest for name, rest in image if name == "RUN"]
    assert f"--uid {user} " in install
    assert f"install --directory --owner {user} /runs" in install
    assert all("user" not in service and not service.get("privileged") for service in SERVICES.values())


def test_no_secret_is_baked_in() -> None:
    for name, rest in instructions():
        assert name not in {"ENV", "ADD"}, "nothing is set in the image, or fetched into it"
        assert not NAMES_OF_SECRETS.search(rest), rest
    text = (ROOT / "compose.yaml").read_text()
    assert re.findall(rf"{TOKEN}: (\S+)", text) == [f"${{{TOKEN}:?write"], (
        "without one in the environment it is refused"
    )
    assert not [key for key in compose()["x-image"]["build"]["args"] if NAMES_OF_SECRETS.search(key)]


@pytest.mark.parametrize("place", CALLS)
def test_every_command_is_one_of_ours_that_takes_these_arguments(place: str, monkeypatch) -> None:
    assert ("ENTRYPOINT", '["wordle-rl"]') in stages()["image"]
    monkeypatch.chdir(ROOT)  # the image has configs/ where it starts
    program = Program("wordle-rl", {**COMMANDS, **further_commands()})
    assert program.read([str(word) for word in CALLS[place]]).command is not None
    for word in CALLS[place]:
        assert isinstance(word, str), "YAML reads a bare number as one"
        assert not word.startswith("configs/") or (ROOT / word).is_file()


def test_ports_are_the_same_everywhere() -> None:
    server, check = SERVICES["server"], SERVICES["check"]
    port = option(server["command"], "--port")
    assert ("EXPOSE", port) in stages()["image"]
    assert option(server["command"], "--host") == "0.0.0.0", "else no other container reaches it"
    assert server["ports"] == [f"127.0.0.1:{port}:{port}"], "the token goes over plain HTTP: this machine alone"
    assert f"http://127.0.0.1:{port}/health" in server["healthcheck"]["test"][-1]
    address = urlsplit(check["command"][1])
    assert (address.hostname, str(address.port)) == ("server", port)


def test_both_sides_know_the_token_by_the_same_variable() -> None:
    for name in ("server", "check"):
        assert option(SERVICES[name]["command"], "--token-variable") == TOKEN
        assert set(SERVICES[name]["environment"]) == {TOKEN}
    assert "environment" not in SERVICES["trainer"], "it asks the server for nothing"


def test_server_and_trainer_share_the_runs() -> None:
    [volume] = {each for name in ("server", "trainer") for each in SERVICES[name]["volumes"]}
    name, inside = volume.split(":")
    assert name in compose()["volumes"]
    assert ("VOLUME", inside) in stages()["image"]
    assert option(SERVICES["server"]["command"], "--runs") == inside
    for call in (SERVICES["trainer"]["command"], DEFAULT_COMMAND):
        assert option(call, "--out").startswith(f"{inside}/")
    for each in ("trainer", "check"):
        assert SERVICES[each]["depends_on"] == {"server": {"condition": "service_healthy"}}


def test_the_file_for_gpus_adds_them_to_the_trainer_alone() -> None:
    [(name, service)] = compose("compose.cuda.yaml")["services"].items()
    assert name == "trainer"
    [device] = service["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}
    assert "torch-cuda" in stages()
    assert compose()["x-image"]["build"]["args"] == {"DEVICE": "${DEVICE:-cpu}"}


def test_a_stop_reaches_the_run_as_ctrl_c() -> None:
    assert ("STOPSIGNAL", "SIGINT") in stages()["image"]
    assert SERVICES["trainer"]["stop_grace_period"] == "2m"
