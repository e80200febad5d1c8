"""Laws of evaluation against a real server of transformers: the same games as in this process."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("openai")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from model_server import model_server, plays_the_same_games

from wordle_rl.policy.loading import save_model

pytestmark = pytest.mark.slow

SECONDS_TO_START = 120


@pytest.fixture(scope="module")
def directory(tiny_model, codec, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("served") / "model"
    save_model(tiny_model, codec, path)
    return path


@pytest.fixture(scope="module")
def url(directory, tmp_path_factory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("hub")
    (home / "hub").mkdir()  # the server lists what is in the cache, and wants there to be one
    program = Path(sys.executable).with_name("transformers")
    with model_server(
        lambda port: [
            *(str(program), "serve", str(directory), "--device", "cpu", "--host", "127.0.0.1", "--port", str(port)),
            *("--continuous-batching", "--cb-num-blocks", "64"),
        ],
        home / "server.log",
        {"HF_HOME": str(home), "HF_HUB_CACHE": str(home / "hub"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        SECONDS_TO_START,
    ) as address:
        yield address


def test_a_served_model_plays_the_games_it_plays_in_this_process(
    url, directory, cli, word_directory, tmp_path: Path
) -> None:
    plays_the_same_games(cli, url, str(directory), directory, word_directory, tmp_path)
    code, out, _ = cli("compare", tmp_path / "here.json", tmp_path / "served.json", "--names", "here", "served")
    assert code == 0
    assert "games differ" not in out
