"""Trainings with adapters in miniature."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from training_fixtures import fast
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from wordle_rl.config.model import LoraSettings
from wordle_rl.config.stages import SFTSettings
from wordle_rl.policy.loading import save_model

torch = pytest.importorskip("torch")


LORA = LoraSettings(rank=4, alpha=16)


SFT = SFTSettings(batch_size=16, epochs=1, optimizer=fast(), logging_steps=1)


SIZE = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
    "intermediate_size": 48, "max_position_embeddings": 1024, "head_dim": 16,
}  # fmt: skip


FAMILIES = {
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "gemma3": (Gemma3TextConfig, Gemma3ForCausalLM),
    "llama": (LlamaConfig, LlamaForCausalLM),
}


def save_base(directory: Path, codec, family: str = "qwen3", dtype=torch.float32, **changes: int) -> Path:
    """A small random model of a family as a directory, as if it came from the hub."""
    config_class, model_class = FAMILIES[family]
    tokenizer = codec.tokenizer
    special = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
    size = {name: value for name, value in (SIZE | changes).items() if family != "qwen2" or name != "head_dim"}
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = model_class(config_class(vocab_size=len(tokenizer), **size, **special))
    save_model(model.to(dtype), codec, directory)
    return directory


def logits(model, seed: int = 0):
    ids = torch.randint(10, 150, (2, 24), generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        return model.eval()(input_ids=ids).logits.float()
