"""Laws of the Space: openenv's own `push` takes the directory as it is, up to the upload."""

from pathlib import Path

import pytest
import yaml

pytest.importorskip("openenv")
from openenv.cli.__main__ import app
from openenv.cli.commands import push
from typer.testing import CliRunner

SPACE = Path(__file__).resolve().parents[2] / "environments" / "openenv"


class FakeHub:
    """Keeps what would be uploaded: the files of the staged directory, by path."""

    def __init__(self) -> None:
        self.created: dict[str, object] = {}
        self.files: dict[str, str] = {}

    def create_repo(self, **given: object) -> None:
        self.created = given

    def upload_folder(self, *, folder_path: str, **given: object) -> None:
        root = Path(folder_path)
        found = [path for path in root.rglob("*") if path.is_file()]
        self.files = {str(path.relative_to(root)): path.read_text("utf-8") for path in found}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    fake = FakeHub()
    monkeypatch.setattr(push, "HfApi", lambda: fake)
    monkeypatch.setattr(push, "whoami", lambda: {"name": "somebody"})
    return fake


def front_matter(text: str) -> dict[str, object]:
    _, matter, _ = text.split("---\n", 2)
    return yaml.safe_load(matter)


def test_openenv_push_takes_the_directory_as_it_is(hub: FakeHub) -> None:
    done = CliRunner().invoke(app, ["push", str(SPACE), "--no-interface"])
    assert done.exit_code == 0, done.output
    assert (hub.created["repo_id"], hub.created["space_sdk"]) == ("somebody/wordle_rl", "docker")
    assert set(hub.files) >= {"Dockerfile", "README.md", "openenv.yaml", "pyproject.toml", "__init__.py", "client.py"}
    assert hub.files["Dockerfile"] == (SPACE / "Dockerfile").read_text("utf-8")
    matter = front_matter(hub.files["README.md"])
    assert (matter["sdk"], matter["app_port"]) == ("docker", 8000)
    assert "openenv" in matter["tags"]
