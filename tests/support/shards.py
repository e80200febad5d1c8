"""Checkpoints in shards."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
import torch.distributed.checkpoint as dcp
from training_fixtures import small_model

from wordle_rl.policy.loading import save_model
from wordle_rl.runs.checksums import SEAL_FILE


@pytest.fixture
def checkpoint(tokenizer, codec, tmp_path) -> Path:
    """A training checkpoint as one process writes it: shards, config and tokenizer, no whole weights."""
    model = small_model(tokenizer)
    save_model(model, codec, tmp_path / "checkpoint-7")
    (tmp_path / "checkpoint-7" / SEAL_FILE).unlink()
    (tmp_path / "checkpoint-7" / "model.safetensors").rename(tmp_path / "whole.safetensors")
    state = {name: weight for name, weight in model.state_dict().items() if name != "lm_head.weight"}  # it is tied
    write_shards(state, tmp_path / "checkpoint-7")
    return tmp_path / "checkpoint-7"


def write_shards(state: dict, checkpoint: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *_args, **_kwargs: None)  # of torch, that there is one process
        dcp.save({"model": state}, checkpoint_id=checkpoint / "pytorch_model_fsdp_0")
