"""Laws of fusing: the logits and the play of the model that was trained, also with thinking and from four bits."""

import json

import pytest

pytest.importorskip("mlx")

import mlx.core as mx
import numpy as np
from lora_training import SFT, save_base
from mlx_models import mlx_logits, probe, torch_logits

from wordle_rl.config import GameSettings, LoraSettings, ModelSettings, RunConfig
from wordle_rl.data.dataset import encode_traces
from wordle_rl.mlx import model as model_module
from wordle_rl.mlx.learner import MLXLearner
from wordle_rl.mlx.model import fuse, load_model
from wordle_rl.policy import loading
from wordle_rl.prompt import Style, Thinking
from wordle_rl.runs import Run, RunError
from wordle_rl.train.sft import train_sft
from wordle_rl.words.split import split_secrets

PROMPTER = GameSettings(style=Style.COMPACT, thinking=Thinking.REQUIRED, max_turns=3).prompter(5)


@pytest.fixture(scope="module", params=[False, True], ids=["whole", "four bits"])
def trained(request, codec, traces, sixty, tmp_path_factory):
    """A run whose adapter learnt from narrated games, and the model as it was trained."""
    place = tmp_path_factory.mktemp("thinking")
    base = save_base(place / "base", codec, hidden_size=64, intermediate_size=128)
    settings = ModelSettings(path=str(base), lora=LoraSettings(rank=8), load_in_4bit=request.param)
    run = Run.create(place / "run", RunConfig(model=settings), split_secrets(sixty))
    model, same_codec = load_model(settings, 0)
    encoded = encode_traces(traces, PROMPTER, codec, 1000).examples
    encoded = sorted(encoded, key=lambda example: len(example.token_ids))[:6]
    assert any(codec.encode("<think>")[0] in example.token_ids for example in encoded)
    train_sft(MLXLearner(model, same_codec), encoded, SFT.model_copy(update={"epochs": 8, "batch_size": 3}), run)
    return run.directory, model


def test_fused_and_unfused_logits_agree(trained, tmp_path) -> None:
    run, model = trained
    assert fuse(run / "sft", tmp_path / "whole") < 1e-4
    ids = probe(model.config.vocab_size)
    trained_logits = mlx_logits(model, ids)
    whole, _ = load_model(ModelSettings(path=str(tmp_path / "whole")), 0)
    assert np.abs(mlx_logits(whole, ids) - trained_logits).max() < 1e-3
    theirs, _ = loading.load_model(ModelSettings(path=str(tmp_path / "whole")), 0)
    assert np.abs(torch_logits(theirs.eval(), ids) - trained_logits).max() < 1e-3
    base, _ = load_model(ModelSettings(path=model.base), 0)
    assert np.abs(mlx_logits(base, ids) - trained_logits).max() > 0.1  # the adapter learnt something


def test_a_model_that_changed_in_fusing_is_not_left_behind(trained, tmp_path, monkeypatch) -> None:
    run, _ = trained
    fused = model_module.fused

    def damaged(model):
        whole = fused(model)
        whole.network.model.norm.weight = whole.network.model.norm.weight * mx.array(1.5)
        head = whole.network.model.layers[0].mlp.down_proj
        head.weight = head.weight + 0.05
        return whole

    monkeypatch.setattr(model_module, "fused", damaged)
    with pytest.raises(RunError, match=r"the merged model is not the unmerged one: logits differ by .* in float32"):
        fuse(run / "sft", tmp_path / "whole")
    assert not (tmp_path / "whole").exists()


def test_the_command_prints_the_distance_and_keeps_the_lineage(trained, cli, tmp_path) -> None:
    run, _ = trained
    code, out, _ = cli(
        "export", run / "sft", "--out", tmp_path / "whole", "--dtype", "bfloat16", "--json", "--backend", "mlx"
    )
    assert code == 0
    assert 0 < json.loads(out)["difference"] < 0.1
    code, _, err = cli("export", run / "sft", "--out", tmp_path / "whole", "--backend", "mlx")
    assert code == 2
    assert "is not empty" in err
