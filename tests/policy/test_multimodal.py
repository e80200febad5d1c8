"""Laws of models that can also see: the text part alone is loaded, exactly, and trains like any causal model."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from chat_families import family_config, family_tokenizer
from rich.console import Console
from safetensors.torch import load_file, save_file
from training_fixtures import rows, write_config
from transformers import (
    AutoModelForCausalLM,
    Gemma3Config,
    Gemma3ForConditionalGeneration,
    Gemma4Config,
    Gemma4ForConditionalGeneration,
    Gemma4TextConfig,
    MiniMaxConfig,
    Qwen2_5_VLConfig,
    Qwen3_5TextConfig,
    Qwen3NextConfig,
    RwkvConfig,
)

from wordle_rl.config.base import ConfigError
from wordle_rl.config.files import load_config
from wordle_rl.config.model import LoraSettings, ModelSettings
from wordle_rl.pipeline import Pipeline
from wordle_rl.policy.loading import load_model, load_numbers, save_model
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.preflight.memory import weight_bytes

VISION = {
    "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2,
    "image_size": 28, "patch_size": 14,
}  # fmt: skip
GENERATION = {
    "bos_token_id": 2, "cache_implementation": "hybrid", "do_sample": True, "eos_token_id": [1, 106],
    "pad_token_id": 0, "top_k": 64, "top_p": 0.95,
}  # fmt: skip
LORA = LoraSettings(rank=4)


@pytest.fixture(scope="module")
def published(tmp_path_factory) -> Path:
    """Gemma 3 in small as its makers publish it from 4B on: vision tower, text part, one type for both, settings."""
    directory = tmp_path_factory.mktemp("gemma") / "published"
    tokenizer = family_tokenizer("gemma3")
    text = family_config("gemma3", len(tokenizer)).to_dict()
    torch.manual_seed(0)
    config = Gemma3Config(text_config=text, vision_config=VISION, mm_tokens_per_image=4, image_token_index=0)
    Gemma3ForConditionalGeneration(config).to(torch.bfloat16).save_pretrained(directory)
    assert any(name.startswith("language_model.model.") for name in load_file(directory / "model.safetensors"))
    tokenizer.save_pretrained(directory)
    settings = json.loads((directory / "config.json").read_text())
    settings["text_config"].pop("dtype", None)
    (directory / "config.json").write_text(json.dumps(settings))
    (directory / "generation_config.json").write_text(json.dumps(GENERATION))
    return directory


def with_names(published: Path, directory: Path, new_name: Callable[[str], str]) -> Path:
    """The same model with other names for its weights; a weight whose name becomes empty is left out."""
    shutil.copytree(published, directory)
    weights = load_file(published / "model.safetensors").items()
    renamed = {new_name(name): weight for name, weight in weights if new_name(name)}
    save_file(renamed, directory / "model.safetensors", metadata={"format": "pt"})
    return directory


@torch.no_grad()
def logits(model) -> torch.Tensor:
    ids = torch.randint(10, model.config.get_text_config().vocab_size, (2, 30), generator=torch.manual_seed(3))
    return model.eval()(input_ids=ids).logits


@pytest.mark.parametrize("later", [False, True], ids=["as published", "as saved by later releases"])
def test_the_text_part_says_exactly_what_the_whole_says(later, published, tmp_path) -> None:
    path, old, new = published, "language_model.model.", "model.language_model."
    if later:
        path = with_names(published, tmp_path / "later", lambda name: name.replace(old, new))
    whole = Gemma3ForConditionalGeneration.from_pretrained(published, dtype=torch.float32, attn_implementation="eager")
    part, _ = load_model(ModelSettings(path=str(path), attn_implementation="eager"), 0)
    assert torch.equal(logits(part), logits(whole))
    assert not [name for name, _ in part.named_parameters() if "vision" in name or "multi_modal" in name]


def test_what_is_saved_is_a_text_model_that_loads_again(published, tmp_path) -> None:
    part, codec = load_model(ModelSettings(path=str(published), dtype="auto"), 0)
    assert part.dtype == torch.bfloat16
    save_model(part, codec, tmp_path / "saved")
    assert json.loads((tmp_path / "saved" / "config.json").read_text())["architectures"] == ["Gemma3ForCausalLM"]
    plain, found = AutoModelForCausalLM.from_pretrained(tmp_path / "saved", output_loading_info=True)
    assert not any(found.values())
    again, codec_again = load_model(ModelSettings(path=str(tmp_path / "saved"), dtype="auto"), 0)
    assert again.dtype == plain.dtype == torch.bfloat16
    assert torch.equal(logits(again), logits(part))
    assert codec_again.stop_ids == codec.stop_ids


def test_a_text_part_that_is_not_whole_is_refused(published, tmp_path) -> None:
    lost = "language_model.model.norm.weight"
    path = with_names(published, tmp_path / "damaged", lambda name: "" if name == lost else name)
    with pytest.raises(ConfigError, match=r"model\.norm\.weight"):
        load_model(ModelSettings(path=str(path)), 0)


@pytest.mark.parametrize("lora", [LoraSettings(), LORA], ids=["whole", "lora"])
def test_what_is_counted_is_what_is_loaded(lora, published) -> None:
    settings = ModelSettings(path=str(published), dtype="auto", lora=lora)
    numbers, (model, _) = load_numbers(settings), load_model(settings, 0)
    assert numbers.num_parameters == sum(parameter.numel() for parameter in model.parameters())
    trained = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    assert numbers.num_trainable == sum(parameter.numel() for _, parameter in trained)
    assert all(("lora_" in name and ".layers." in name) == bool(lora.rank) for name, _ in trained if lora.rank)
    assert not any("vision" in name for name, _ in trained)
    assert (numbers.num_layers, numbers.weight_bytes, numbers.context) == (2, 2, 4096)
    stored = sum(weight.numel() for weight in load_file(published / "model.safetensors").values())
    adapters = sum(parameter.nbytes for _, parameter in trained) if lora.rank else 0
    assert weight_bytes(numbers) - adapters < 2 * stored


def test_it_goes_through_sft_grpo_and_evaluation(published, word_directory, tmp_path) -> None:
    """With a KL penalty too, whose reference is the text part as SFT left it."""
    small = {
        "traces__num_games": "48", "sft__batch_size": "8", "model__max_length": "1024", "eval__max_games": "3",
        "max_completion_tokens": "24", "grpo__steps": "1", "grpo__beta": "0.1",
        "model__path": json.dumps(str(published)), "model__dtype": '"auto"',
    }  # fmt: skip
    config = load_config(write_config(tmp_path / "gemma.toml", word_directory, **small))
    results = Pipeline(config, tmp_path / "run", Console(quiet=True))()
    [kl] = [row["kl"] for row in rows(tmp_path / "run" / "metrics.jsonl") if row["stage"] == "grpo"]
    assert kl == pytest.approx(0, abs=1e-3)
    for name in ("sft", "grpo"):
        assert results[name]["held_out"]["num_games"] == 3
        stored = load_file(tmp_path / "run" / name / "model.safetensors")
        assert not [weight for weight in stored if not weight.startswith("model.")]
        assert json.loads((tmp_path / "run" / name / "config.json").read_text())["model_type"] == "gemma3_text"


@torch.no_grad()
def test_the_text_part_of_gemma_4_says_what_the_whole_says(tmp_path) -> None:
    tokenizer = family_tokenizer("gemma4")
    text = Gemma4TextConfig(
        vocab_size=len(tokenizer), vocab_size_per_layer_input=len(tokenizer), hidden_size=32, num_hidden_layers=4,
        num_attention_heads=2, num_key_value_heads=1, head_dim=16, global_head_dim=32, intermediate_size=48,
        hidden_size_per_layer_input=8, num_kv_shared_layers=2, max_position_embeddings=512, pad_token_id=0,
        layer_types=["sliding_attention", "full_attention"] * 2,
    )  # fmt: skip
    vision = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    vision |= {"num_key_value_heads": 2, "head_dim": 8}
    torch.manual_seed(0)
    whole = Gemma4ForConditionalGeneration(Gemma4Config(text_config=text, vision_config=vision, audio_config=None))
    whole.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    settings = ModelSettings(path=str(tmp_path))
    part, codec = load_model(settings, 0)
    assert torch.allclose(logits(part), logits(whole), atol=1e-5)
    assert codec.frame.turn_end == "<turn|>"
    assert load_numbers(settings).num_parameters == sum(weight.numel() for weight in part.parameters())
    assert TransformersSampler(part, codec).room_for(100) > 1, "its layers differ in the size of a head"
    save_model(part, codec, tmp_path / "saved")
    assert torch.equal(logits(load_model(ModelSettings(path=str(tmp_path / "saved")), 0)[0]), logits(part))


LINEAR = {"num_hidden_layers": 2, "layer_types": ["linear_attention"] * 2}


@pytest.mark.parametrize(
    "config",
    [Qwen2_5_VLConfig(), MiniMaxConfig(), RwkvConfig(), Qwen3_5TextConfig(**LINEAR), Qwen3NextConfig(**LINEAR)],
    ids=lambda config: config.model_type,
)
def test_models_that_cannot_play_are_refused_in_one_line(config, tmp_path) -> None:
    config.save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match=f"\\({config.model_type}\\)") as caught:
        load_numbers(ModelSettings(path=str(tmp_path)))
    assert "\n" not in str(caught.value)
