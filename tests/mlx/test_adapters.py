"""Laws of adapters on MLX: only they learn, peft plays them alike, they are trained further."""

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("mlx")

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from lora_training import SFT, save_base
from mlx_models import mlx_logits, probe, torch_logits
from sft_training import examples  # noqa: F401  # a fixture
from training_fixtures import make_run, training_of

from wordle_rl.config.base import ConfigError
from wordle_rl.config.model import GameSettings, LoraSettings, ModelSettings
from wordle_rl.config.run import RunConfig
from wordle_rl.mlx import model as model_module
from wordle_rl.mlx.learner import MLXLearner
from wordle_rl.mlx.model import fuse, load_model
from wordle_rl.policy import loading
from wordle_rl.policy.adapters import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from wordle_rl.policy.whole_models import merge
from wordle_rl.prompt import Style, Thinking
from wordle_rl.runs import Run, RunError, read_object, write_json
from wordle_rl.runs.checksums import SEAL_FILE
from wordle_rl.train.example import encode_traces
from wordle_rl.train.sft import train_sft
from wordle_rl.words.split import split_secrets

LORA = LoraSettings(rank=4, alpha=16)


@pytest.fixture(scope="module")
def base(codec, tmp_path_factory):
    return save_base(tmp_path_factory.mktemp("base") / "qwen3", codec)


@pytest.fixture(scope="module")
def adapter(base, examples, sixty, tmp_path_factory):  # noqa: F811
    """An adapter trained on MLX, and the model as it was trained."""
    model, codec = load_model(ModelSettings(path=str(base), lora=LORA), 0)
    frozen = {name: np.array(array) for name, array in model.weights().items() if "lora" not in name}
    run = make_run(tmp_path_factory.mktemp("run") / "run", sixty)
    directory = train_sft(
        training_of(MLXLearner(model, codec), run, "sft"), examples, SFT.model_copy(update={"epochs": 3})
    )
    return directory, model, frozen


def test_untrained_adapters_change_nothing(base) -> None:
    plain, _ = load_model(ModelSettings(path=str(base)), 0)
    adapted, _ = load_model(ModelSettings(path=str(base), lora=LORA), 0)
    ids = probe(plain.config.vocab_size)
    assert np.array_equal(mlx_logits(plain, ids), mlx_logits(adapted, ids))
    assert all("lora" in name for name in adapted.trainable())
    assert len(adapted.trainable()) == 2 * 7 * 2  # two layers of seven, two matrices each


def test_only_adapters_learn(adapter) -> None:
    _, model, frozen = adapter
    weights = model.weights()
    assert all(np.array_equal(np.array(weights[name]), before) for name, before in frozen.items())
    assert any(mx.any(weights[name]).item() for name in weights if name.endswith("lora_b"))


def test_both_libraries_play_what_mlx_trained(adapter) -> None:
    directory, model, _ = adapter
    settings, ids = ModelSettings(path=str(directory)), probe(model.config.vocab_size)
    trained = mlx_logits(model, ids)
    whole, _ = loading.load_model(settings, 0)
    assert np.abs(torch_logits(whole.eval(), ids) - trained).max() < 1e-4
    assert not (directory / "model.safetensors").exists()
    again, _ = load_model(settings, 0)
    assert np.array_equal(mlx_logits(again, ids), trained)
    assert (again.lora.rank, again.lora.alpha) == (4, 16)


def test_the_ordinary_merge_takes_it(adapter, tmp_path) -> None:
    assert merge(adapter[0], tmp_path / "whole") < 1e-4


def test_another_rank_is_refused(adapter) -> None:
    with pytest.raises(ConfigError, match=r"model\.lora\.rank 8"):
        load_model(ModelSettings(path=str(adapter[0]), lora=LoraSettings(rank=8)), 0)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"use_rslora": True}, "use_rslora"),
        ({"use_dora": True, "bias": "all"}, "use_dora, bias"),
        ({"alpha_pattern": {"q_proj": 32}}, "alpha_pattern"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"peft_type": "LOHA"}, "peft_type LOHA"),
    ],
)
def test_an_adapter_with_more_than_plain_lora_is_refused(changes: dict, named: str, adapter, tmp_path) -> None:
    """It would play without a part of itself."""
    other = Path(shutil.copytree(adapter[0], tmp_path / "other"))
    (other / SEAL_FILE).unlink(missing_ok=True)
    write_json(other / ADAPTER_CONFIG, read_object(other / ADAPTER_CONFIG) | changes)
    with pytest.raises(ConfigError, match=named):
        load_model(ModelSettings(path=str(other)), 0)


def test_weights_of_an_adapter_that_have_no_place_are_named(adapter, tmp_path) -> None:
    other = Path(shutil.copytree(adapter[0], tmp_path / "other"))
    (other / SEAL_FILE).unlink(missing_ok=True)
    file = str(other / ADAPTER_WEIGHTS)
    mx.save_safetensors(file, {**mx.load(file), "base_model.model.lm_head.weight": mx.zeros((2, 2))}, {"format": "pt"})
    with pytest.raises(ConfigError, match=r"lm_head\.weight"):
        load_model(ModelSettings(path=str(other)), 0)


# --- fusing: the logits of the model that was trained, also from four bits ---


PROMPTER = GameSettings(style=Style.COMPACT, thinking=Thinking.REQUIRED, max_turns=3).prompter(5)


@pytest.fixture(scope="module", params=[False, True], ids=["whole", "four bits"])
def trained(request, codec, traces, sixty, tmp_path_factory):
    """A run whose adapter learnt from narrated games, and the model as it was trained."""
    place = tmp_path_factory.mktemp("thinking")
    base = save_base(place / "base", codec, hidden_size=64, intermediate_size=128)
    settings = ModelSettings(path=str(base), lora=LoraSettings(rank=8), load_in_4bit=request.param)
    run = Run.create(place / "run", RunConfig(model=settings), split_secrets(sixty))
    model, same_codec = load_model(settings, 0)
    assert any(isinstance(module, nn.QuantizedLinear) for module in model.network.modules()) is request.param
    assert all("lora" in name for name in model.trainable())
    encoded = encode_traces(traces, PROMPTER, codec, 1000).examples
    encoded = sorted(encoded, key=lambda example: len(example.token_ids))[:6]
    assert any(codec.encode("<think>")[0] in example.token_ids for example in encoded)
    training = training_of(MLXLearner(model, same_codec), run, "sft")
    train_sft(training, encoded, SFT.model_copy(update={"epochs": 8, "batch_size": 3}))
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
    with pytest.raises(RunError):
        fuse(run / "sft", tmp_path / "whole")
    assert not (tmp_path / "whole").exists()


def test_the_command_prints_the_distance_and_keeps_the_lineage(trained, cli, tmp_path) -> None:
    command = ("export", trained[0] / "sft", "--out", tmp_path / "whole", "--backend", "mlx")
    code, out, _ = cli(*command, "--dtype", "bfloat16", "--json")
    assert code == 0
    assert 0 < json.loads(out)["difference"] < 0.1
    code, _, err = cli(*command)
    assert code == 2
    assert "--out" in err
