"""Laws of `watch`: a directory that is not there is refused, and it does not ask for the port of `serve`."""

from pathlib import Path

import pytest

pytest.importorskip("starlette")

from wordle_rl.cli import main
from wordle_rl.serve import server
from wordle_rl.serve.serve_settings import ServeSettings


@pytest.mark.parametrize("export", [False, True])
def test_a_missing_run_directory_is_refused_before_anything_is_served(
    export, tmp_path: Path, capsys, monkeypatch
) -> None:
    monkeypatch.setattr(server, "run_server", lambda *_: pytest.fail("it was served"))
    options = ["--export", str(tmp_path / "page.html")] if export else []
    assert main(["watch", str(tmp_path / "nothing"), *options]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert message.startswith("error: ")
    assert "nothing" in message
    assert not (tmp_path / "page.html").exists()


def test_watch_and_serve_run_side_by_side(tmp_path: Path, monkeypatch) -> None:
    asked: list[ServeSettings] = []
    monkeypatch.setattr(server, "run_server", lambda app, settings, *_: asked.append(settings))
    assert (main(["watch", str(tmp_path)]), main(["serve"])) == (0, 0)
    assert len({settings.port for settings in asked}) == 2
    assert asked[0].runs == tmp_path
