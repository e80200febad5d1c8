"""Laws of evaluation against real vLLM on this machine's processor. Opt-in: `make test-vllm`."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("openai")

from model_server import model_server, plays_the_same_games

pytestmark = pytest.mark.vllm
SECONDS_TO_START = 600
HEAD_DIM_64 = {"hidden_size": 128, "num_layers": 2, "num_heads": 2, "num_kv_heads": 1, "intermediate_size": 128}


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    """A model whose choices depend on what it reads, with heads of a size that vLLM computes on a processor."""
    import torch

    from wordle_rl.tiny import make_model, make_tokenizer

    path = tmp_path_factory.mktemp("served") / "model"
    tokenizer = make_tokenizer()
    model = make_model(tokenizer, **HEAD_DIM_64, max_length=512)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(6.0)
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def url(directory, tmp_path_factory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("vllm")
    with model_server(
        lambda port: [
            *(sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(directory)),
            *("--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(port)),
            *("--dtype", "float32", "--enforce-eager", "--max-model-len", "512"),
        ],
        home / "server.log",
        {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "HF_HUB_OFFLINE": "1"},
        SECONDS_TO_START,
    ) as address:
        yield address


def test_a_model_served_by_vllm_plays_the_games_it_plays_in_this_process(
    url, directory, cli, word_directory, tmp_path: Path
) -> None:
    plays_the_same_games(cli, url, "tiny", directory, word_directory, tmp_path)
