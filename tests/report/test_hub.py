"""Laws of pushing: the model and its card go, nothing else does, no token is shown, and what is in the way is said."""

import json
import shutil
import socket
from pathlib import Path

import pytest

pytest.importorskip("torch")

from fake_hub import open_hub
from huggingface_hub import HfApi

from wordle_rl.config import ConfigError
from wordle_rl.report.hub import files_of, push

TOKEN = "hf_" + "secret" * 5


@pytest.fixture
def model(finished_run, tmp_path) -> Path:
    """A trained model with what a stopped training leaves around it."""
    shutil.copytree(finished_run, tmp_path / "mini")
    directory = tmp_path / "mini" / "grpo"
    for name in (
        "checkpoints/checkpoint-1/model.safetensors",
        "epochs/epoch-1/config.json",
        ".cache/x",
        "training_args.bin",
        "optimizer.pt",
        "rng_state_1.pth",
    ):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text("x")
    return directory


@pytest.fixture
def no_token(monkeypatch, tmp_path) -> None:
    """Nobody is logged in."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"))


def test_the_model_and_its_card_are_sent_and_nothing_else(model) -> None:
    with open_hub() as hub:
        files = push(model.parent, "me/wordle", private=True, api=HfApi(endpoint=hub.url, token=TOKEN))
    assert {"README.md", "config.json", "model.safetensors", "tokenizer.json", "wordle_rl.json"} <= set(files)
    assert not [name for name in files if name.startswith(("checkpoints", "epochs", ".", "training_args", "o", "rng"))]
    assert sorted(hub.repos["me/wordle"]) == files == files_of(model)


def test_a_missing_card_is_written_and_one_of_the_users_own_is_sent_as_it_is(model) -> None:
    with open_hub() as hub:
        api, sent = HfApi(endpoint=hub.url, token=TOKEN), hub.repos.setdefault("me/wordle", {})
        (model / "README.md").unlink()
        push(model, "me/wordle", api=api)
        assert sent["README.md"].startswith(b"---\n")
        (model / "README.md").write_text("mine")
        push(model, "me/wordle", api=api)
        assert sent["README.md"] == b"mine"


def test_a_dry_run_lists_the_files_and_needs_no_token(model, no_token, cli) -> None:
    (model / "README.md").unlink()
    code, out, _ = cli("export", model, "--repo", "me/wordle", "--dry-run", "--json")
    assert code == 0
    assert json.loads(out) == {"repo": "me/wordle", "sent": False, "files": sorted([*files_of(model), "README.md"])}
    assert not (model / "README.md").exists()


def test_without_a_token_nothing_is_tried(model, no_token, cli) -> None:
    code, out, err = cli("export", model, "--repo", "me/wordle")
    assert (code, out) == (2, "")
    assert "set HF_TOKEN" in err


@pytest.mark.parametrize("name", ["wordle", "me/you/wordle", "me/wor dle"])
def test_a_name_that_the_hub_would_refuse_is_refused_here(model, name: str) -> None:
    with pytest.raises(ConfigError, match="give USER/NAME"):
        push(model, name, api=HfApi(endpoint="http://127.0.0.1:9", token=TOKEN))


def test_a_hub_out_of_reach_is_one_line(model) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(ConfigError, match="could not be reached") as refused:
        push(model, "me/wordle", api=HfApi(endpoint=f"http://127.0.0.1:{port}", token=TOKEN))
    assert TOKEN not in str(refused.value)


@pytest.mark.parametrize(("status", "said"), [(401, "401"), (403, "403"), (400, "status 400, no such thing")])
def test_a_refusal_says_what_to_do_and_shows_no_token(model, status: int, said: str) -> None:
    with open_hub() as hub:
        hub.refuses = status
        with pytest.raises(ConfigError, match=said) as refused:
            push(model, "me/wordle", api=HfApi(endpoint=hub.url, token=TOKEN))
    assert TOKEN not in str(refused.value)
