"""What several test files share: a small word list, the embedded tokenizer, and models of two layers."""

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from fake_endpoint import serve  # noqa: F401  # a fixture, found here by every test file
from hypothesis import settings
from training_fixtures import (  # noqa: F401  # fixtures, found here by every test file
    cli,
    finished_run,
    plain_traces,
    sixty,
    solver,
    split,
    traces,
    word_directory,
)

from wordle_rl.words import WordList, load_words


@pytest.fixture(scope="module")
def game_server() -> Iterator[str]:
    """Address of a server whose games are paid as `other_loops.SETTINGS` says."""
    pytest.importorskip("openenv")
    from other_loops import SETTINGS
    from wordle_server import wordle_server

    from wordle_rl.serve.serve_settings import ServeSettings

    with wordle_server(ServeSettings(reward_preset=SETTINGS.reward_preset)) as running:
        yield running.address


# One thread a process, set before torch is imported: threads that wait for each other on a busy machine take a
# hundred times as long over models this small.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# On the CPU, also where there is a GPU: figures are compared to more digits than two devices share. What a GPU does is
# for scripts/gpu_check.py; set CUDA_VISIBLE_DEVICES to let the tests use one.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

# A suite started in the background ignores Ctrl-C, and what it starts does so too; some tests press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Derandomised, since a test must say the same twice; without a deadline, since the machines of a CI are slow at times.
settings.register_profile("laws", derandomize=True, deadline=None)
settings.load_profile("laws")


@pytest.fixture(scope="module", autouse=True)
def _imports_are_no_garbage() -> None:
    """Keep what has been imported out of later collections.

    A trainer collects garbage when it ends; over the objects of torch and transformers that takes longer than to train
    a model this small.
    """
    gc.collect()
    gc.freeze()


SMALL_ANSWERS = (
    "abbey", "abide", "babes", "civic", "crane", "crate", "drape", "eerie", "fuzzy", "geese", "grape", "graze", "kudzu",
    "lymph", "mamma", "nymph", "pesto", "speed", "tests", "these", "think", "trace", "vivid", "zonal",
)  # fmt: skip
SMALL_GUESSES = (*SMALL_ANSWERS, "aahed", "qajaq", "sassy", "eagle", "level", "xylyl")


@pytest.fixture(scope="session")
def small_words() -> WordList:
    """24 answers and 30 guesses, rich in repeated letters."""
    return WordList("small", SMALL_ANSWERS, SMALL_GUESSES)


@pytest.fixture(scope="session")
def default_words() -> WordList:
    """The embedded list."""
    return load_words()


@pytest.fixture(scope="session")
def tokenizer():
    """The embedded tokenizer."""
    pytest.importorskip("torch")
    from wordle_rl.policy.tiny import make_tokenizer

    return make_tokenizer()


@pytest.fixture(scope="session")
def codec(tokenizer):
    """The embedded tokenizer's chat codec."""
    from wordle_rl.chat.codec import ChatCodec

    return ChatCodec(tokenizer)


@pytest.fixture(scope="session")
def tiny_model(tokenizer) -> Iterator[object]:
    """A two-layer model with weights large enough that its choices depend on what it reads."""
    import torch

    from wordle_rl.policy.tiny import make_model

    model = make_model(tokenizer, hidden_size=32, num_layers=2, num_heads=2, num_kv_heads=1, intermediate_size=48)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(0.12 / parameter.std())
    return model.eval()
