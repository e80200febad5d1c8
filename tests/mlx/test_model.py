"""Laws of models on MLX: transformers in and out, bit for bit, with the same logits."""

import pytest

pytest.importorskip("mlx")

import mlx.core as mx
import numpy as np
import torch
from mlx_models import firm, mlx_logits, pair, probe, torch_logits, write_family
from safetensors.torch import load_file
from small_models import SLIDING, small_config
from training_fixtures import same_bits, small_model
from transformers import Gemma3Config, Gemma3ForConditionalGeneration, LlamaConfig, Qwen2Config, Qwen3Config
from transformers.models.gemma3 import Gemma3TextConfig

from wordle_rl.config.base import ConfigError
from wordle_rl.config.model import ModelSettings
from wordle_rl.mlx.model import check_names, load_model, save_model
from wordle_rl.policy import loading


def rope(theta: float, **more: object) -> dict[str, object]:
    """Positions as transformers 5 nests them, far from the defaults of either library."""
    return {"rope_type": "default", "rope_theta": theta, **more}


GEMMA = {
    "hidden_size": 64,  # MLX rounds its root to bfloat16, which changes nothing here
    "head_dim": 16, "query_pre_attn_scalar": 16, "layer_types": SLIDING, "sliding_window": 8,
    "rope_parameters": {
        "full_attention": rope(5e5, rope_type="linear", factor=4.0), "sliding_attention": rope(2e3),
    },
}  # fmt: skip
FAMILIES = {
    "llama": lambda size: LlamaConfig(**size, rope_parameters=rope(3e4, rope_type="linear", factor=2.0)),
    "qwen2": lambda size: Qwen2Config(**size, rope_parameters=rope(2e4)),
    "qwen3": lambda size: Qwen3Config(**size, head_dim=16),
    "gemma3": lambda size: Gemma3TextConfig(**size | GEMMA),
}


def test_the_embedded_model_made_by_either_library_is_the_same(tmp_path) -> None:
    settings = ModelSettings(path="tiny", hidden_size=32, num_layers=1)
    ours, theirs = load_model(settings, 3)[0].weights(), loading.load_model(settings, 3)[0].state_dict()
    assert ours.keys() == theirs.keys() - {"lm_head.weight"}
    assert all(weight.tolist() == theirs[name].tolist() for name, weight in ours.items())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weights_come_back_bit_for_bit(tokenizer, codec, tmp_path, dtype) -> None:
    whole = firm(small_model(tokenizer)).to(getattr(torch, dtype))
    loading.save_model(whole, codec, tmp_path / "there")
    model, same_codec = load_model(ModelSettings(path=str(tmp_path / "there"), dtype="auto"), 0)
    save_model(model, same_codec, tmp_path / "back")
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("there", "back"))
    assert same_bits(before, after)
    assert all(weight.dtype == getattr(torch, dtype) for weight in after.values())


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_plays_alike_in_both_libraries_and_comes_back(codec, tmp_path, family) -> None:
    directory = write_family(tmp_path / family, codec, FAMILIES[family](small_config(codec)))
    model, same_codec = load_model(ModelSettings(path=str(directory)), 0)
    whole, _ = loading.load_model(ModelSettings(path=str(directory)), 0)
    ids = probe(model.config.vocab_size)
    assert np.abs(torch_logits(whole.eval(), ids) - mlx_logits(model, ids)).max() < 1e-4
    assert model.head is not None
    save_model(model, same_codec, tmp_path / "back")
    back, _ = loading.load_model(ModelSettings(path=str(tmp_path / "back")), 0)
    assert np.array_equal(torch_logits(whole, ids), torch_logits(back.eval(), ids))


def test_gemma_as_published_loads_as_its_text_part(codec, tmp_path) -> None:
    """Nesting and names of gemma-3-4b-it, vision tower and all, at small width and depth."""
    vision = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
              "image_size": 28, "patch_size": 14}  # fmt: skip
    config = Gemma3Config(text_config=small_config(codec) | GEMMA, vision_config=vision, mm_tokens_per_image=4)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        whole = firm(Gemma3ForConditionalGeneration(config))
    whole.to(torch.bfloat16).save_pretrained(tmp_path / "gemma")
    codec.tokenizer.save_pretrained(tmp_path / "gemma")
    stored = load_file(tmp_path / "gemma" / "model.safetensors")
    assert any("vision_tower" in name for name in stored)
    model, _ = load_model(ModelSettings(path=str(tmp_path / "gemma"), dtype="auto"), 0)
    assert not any("vision" in name or "projector" in name for name in model.weights())
    assert {str(weight.dtype) for weight in model.weights().values()} == {"mlx.core.bfloat16"}
    text, _ = loading.load_model(ModelSettings(path=str(tmp_path / "gemma"), dtype="float32"), 0)
    model.network.set_dtype(mx.float32)
    ids = probe(model.config.vocab_size)
    assert np.abs(torch_logits(text.eval(), ids) - mlx_logits(model, ids)).max() < 1e-3


def test_what_transformers_would_not_find_is_refused(tokenizer) -> None:
    _, model = pair(tokenizer)
    weights = model.weights()
    weights["model.layers.0.mlp.experts.weight"] = weights.pop("model.layers.0.mlp.up_proj.weight")
    with pytest.raises(ConfigError, match=r"model.layers.0.mlp.experts.weight"):
        check_names(weights, model.config, "there")
