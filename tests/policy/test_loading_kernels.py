"""Laws of fast kernels that are not here: they are asked for by name, for the model that is trained, before it is."""

from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from training_fixtures import small_model
from transformers import PreTrainedModel

import wordle_rl.policy.loading as modeling_module
from wordle_rl.config import LoraSettings, ModelSettings
from wordle_rl.policy.loading import load_model, save_model


@pytest.mark.parametrize("kind", ["tiny", "directory", "adapters"])
def test_the_attention_asked_for_is_what_the_model_is_told(
    kind: str, tokenizer, codec, tmp_path: Path, monkeypatch
) -> None:
    save_model(small_model(tokenizer), codec, tmp_path / "base")
    told: list[str] = []
    monkeypatch.setattr(modeling_module, "find_spec", lambda _name: ModuleSpec("flash_attn", None))
    monkeypatch.setattr(PreTrainedModel, "set_attn_implementation", lambda _model, name: told.append(name))
    settings = (
        ModelSettings(hidden_size=32, num_layers=1) if kind == "tiny" else ModelSettings(path=str(tmp_path / "base"))
    )
    lora = LoraSettings(rank=2) if kind == "adapters" else LoraSettings()
    wanted = {"attn_implementation": "flash_attention_2", "dtype": "bfloat16", "lora": lora}
    load_model(settings.model_copy(update=wanted), 0)
    assert told == ["flash_attention_2"]
