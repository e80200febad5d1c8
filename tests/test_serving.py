"""Laws of evaluation against a real server of transformers: the same games as in this process."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("openai")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from model_server import model_server

from wordle_rl.evaluate import load_evaluation
from wordle_rl.modeling import save_model

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
    game = ("--words", word_directory, "--split", "test", "--max-completion-tokens", 12)
    wording = ("--style", "compact", "--shape", "state", "--thinking", "off")
    served, here = tmp_path / "served.json", tmp_path / "here.json"
    player = ("--player", f"openai:{directory}", "--base-url", url, "--concurrency", 4)
    code, _, err = cli("eval", *player, *game, *wording, "--out", served)
    assert code == 0, err
    code, _, err = cli("eval", "--player", directory, *game, *wording, "--out", here)
    assert code == 0, err
    over_the_wire, in_process = load_evaluation(served), load_evaluation(here)
    assert over_the_wire.figures().num_errors == 0
    assert over_the_wire.records == in_process.records
    assert len({turn.reply for record in in_process.records for turn in record.turns}) > 1
    code, out, _ = cli("compare", here, served, "--names", "here", "served")
    assert code == 0
    assert "games differ" not in out
