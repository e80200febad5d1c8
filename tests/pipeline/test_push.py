"""Laws of pushing while a run trains: checkpoints go as models one can play, a failure costs a line, never the run."""

from pathlib import Path
from threading import Event

import pytest

pytest.importorskip("torch")

from fake_hub import open_hub
from huggingface_hub import HfApi
from training_fixtures import small_model

from wordle_rl.config import ConfigError, GameSettings, WordSettings
from wordle_rl.pipeline.push import OUTBOX, HubPusher
from wordle_rl.policy.loading import save_model
from wordle_rl.runs.lineage import Lineage, lesson_of
from wordle_rl.words import load_words
from wordle_rl.words.split import split_secrets

LINEAGE = Lineage(game=GameSettings(), lessons=(lesson_of(WordSettings(), split_secrets(load_words())),))


@pytest.fixture
def checkpoint(tokenizer, codec, tmp_path: Path) -> Path:
    """A checkpoint of GRPO, with the state of its training."""
    directory = tmp_path / "run" / "grpo" / "checkpoints" / "checkpoint-2"
    save_model(small_model(tokenizer), codec, directory)
    for name in ("optimizer.pt", "trainer_state.json", "rng_state.pth"):
        (directory / name).write_text("x")
    return directory


def sent(pusher: HubPusher) -> None:
    assert pusher._sending is not None
    pusher._sending.join()


def test_a_checkpoint_is_sent_as_a_model_with_its_lineage_and_without_its_training(checkpoint: Path) -> None:
    shown: list[str] = []
    with open_hub() as hub:
        pusher = HubPusher("me/wordle", shown.append, api=HfApi(endpoint=hub.url, token="hf_x"))
        pusher.send_checkpoint(LINEAGE, checkpoint, "grpo step 2")
        sent(pusher)
    assert hub.commits == [("me/wordle", "grpo step 2")]
    files = hub.repos["me/wordle"]
    assert {"model.safetensors", "config.json", "tokenizer.json", "wordle_rl.json"} <= set(files)
    assert not {"optimizer.pt", "trainer_state.json", "rng_state.pth"} & set(files)
    assert files["model.safetensors"] == (checkpoint / "model.safetensors").read_bytes()
    assert shown == ["sent to me/wordle: grpo step 2"]
    assert not (checkpoint.parents[2] / OUTBOX).exists()
    assert not (checkpoint / "wordle_rl.json").exists(), "the checkpoint itself is as it was"


def test_while_one_is_on_its_way_the_next_is_left_out(checkpoint: Path) -> None:
    held, begun, titles = Event(), Event(), []

    class SlowApi:
        def create_repo(self, *_: object, **__: object) -> None:
            pass

        def upload_folder(self, *, commit_message: str, **_: object) -> None:
            begun.set()
            held.wait(10)
            titles.append(commit_message)

    pusher = HubPusher("me/wordle", lambda _: None, api=SlowApi())
    pusher.send_checkpoint(LINEAGE, checkpoint, "grpo step 2")
    assert begun.wait(10)
    pusher.send_checkpoint(LINEAGE, checkpoint, "grpo step 4")
    held.set()
    sent(pusher)
    assert titles == ["grpo step 2"]


def test_a_checkpoint_in_shards_is_left_out(tmp_path: Path) -> None:
    directory = tmp_path / "run" / "sft" / "checkpoints" / "checkpoint-1"
    (directory / "pytorch_model_fsdp_0").mkdir(parents=True)
    pusher = HubPusher("me/wordle", lambda _: None, api=HfApi(token="hf_x"))
    pusher.send_checkpoint(LINEAGE, directory, "sft step 1")
    assert pusher._sending is None


def test_what_the_hub_would_refuse_is_refused_before_the_run(cli, tmp_path: Path, monkeypatch) -> None:
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"))
    with pytest.raises(ConfigError, match="USER/NAME"):
        HubPusher("wordle", lambda _: None)
    code, _, err = cli("run", "quickstart", "--out", tmp_path / "run", "--push-to", "me/wordle")
    assert (code, err.count("\n")) == (2, 1)
    assert "no token for the hub" in err
    assert not (tmp_path / "run").exists()
