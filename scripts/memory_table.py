"""Print the tables of docs/guides/memory.md and docs/scale.md from the numbers in models' published config.json.

    python scripts/memory_table.py

Nothing is downloaded: the numbers stand below. For any other model, `wordle-rl preflight CONFIG.toml --model.path NAME
--groups 0` counts the same way.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from transformers import Gemma3TextConfig, PreTrainedConfig, Qwen2Config, Qwen3Config

from wordle_rl.config.model import LoraSettings, ModelSettings
from wordle_rl.policy.loading import load_numbers
from wordle_rl.policy.sizes import ModelNumbers
from wordle_rl.preflight.memory import cache_bytes, training_bytes, weight_bytes

LENGTH = 4096
RANK = 16
FRACTION = 0.7
"""Fraction of a GPU of 80 GB for the server of verl."""
_GIB = 1024**3

MODELS: dict[str, PreTrainedConfig] = {
    "Qwen2.5-1.5B": Qwen2Config(
        vocab_size=151_936, hidden_size=1536, num_hidden_layers=28, num_attention_heads=12, num_key_value_heads=2,
        intermediate_size=8960, tie_word_embeddings=True, max_position_embeddings=32_768, dtype="bfloat16",
    ),
    "Qwen3-1.7B": Qwen3Config(
        vocab_size=151_936, hidden_size=2048, num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8,
        head_dim=128, intermediate_size=6144, tie_word_embeddings=True, max_position_embeddings=40_960,
        dtype="bfloat16",
    ),
    "Qwen2.5-3B": Qwen2Config(
        vocab_size=151_936, hidden_size=2048, num_hidden_layers=36, num_attention_heads=16, num_key_value_heads=2,
        intermediate_size=11_008, tie_word_embeddings=True, max_position_embeddings=32_768, dtype="bfloat16",
    ),
    "Gemma-3-4B": Gemma3TextConfig(
        vocab_size=262_208, hidden_size=2560, num_hidden_layers=34, num_attention_heads=8, num_key_value_heads=4,
        head_dim=256, intermediate_size=10_240, max_position_embeddings=131_072, dtype="bfloat16",
    ),
    "Qwen3-4B": Qwen3Config(
        vocab_size=151_936, hidden_size=2560, num_hidden_layers=36, num_attention_heads=32, num_key_value_heads=8,
        head_dim=128, intermediate_size=9728, tie_word_embeddings=True, max_position_embeddings=40_960,
        dtype="bfloat16",
    ),
    "Qwen3-8B": Qwen3Config(
        vocab_size=151_936, hidden_size=4096, num_hidden_layers=36, num_attention_heads=32, num_key_value_heads=8,
        head_dim=128, intermediate_size=12_288, tie_word_embeddings=False, max_position_embeddings=40_960,
        dtype="bfloat16",
    ),
}  # fmt: skip
"""Model -> the numbers of its config.json; of Gemma 3 the text part."""


def tables() -> Iterator[str]:
    """The lines of all tables, in markdown."""
    yield f"| | parameters | weights | all trained, float32 | all trained, bfloat16 | LoRA, rank {RANK}, bfloat16 |"
    yield "|---|---|---|---|---|---|"
    found = {name: _numbers(config) for name, config in MODELS.items()}
    for name, (single, half, adapted) in found.items():
        sizes = (half.num_parameters * half.weight_bytes, *(_counted(numbers) for numbers in (single, half, adapted)))
        yield f"| {name} | {half.num_parameters / 1e9:.2f} billion | {_row(*sizes)} |"
    yield ""
    yield f"| | a token, KiB | a game of {LENGTH:,} | a group of 8 | a group of 16 | a step of 8 groups of 8 |"
    yield "|---|---|---|---|---|---|"
    for name, (_, half, _) in found.items():
        caches = [cache_bytes(half, LENGTH, games) for games in (1, 8, 16, 64)]
        yield f"| {name} | {cache_bytes(half, 1, 1) / 1024:.0f} | {_row(*caches)} |"
    yield ""
    yield f"| verl's trainer, GiB a GPU: | 1 | 8 | 64 GPUs | games of {LENGTH:,} at once on a server of 1 | 2 GPUs |"
    yield "|---|---|---|---|---|---|"
    for name, (_, half, _) in found.items():
        # Weights, gradients and Adam's two moments in float32, sharded; the server's copy of the weights in bfloat16.
        shares = [f"{16 * half.num_parameters / gpus / _GIB:.1f}" for gpus in (1, 8, 64)]
        free = [FRACTION * 80e9 * gpus - 2 * half.num_parameters for gpus in (1, 2)]
        games = [str(int(max(0, each) // cache_bytes(half, LENGTH, 1))) for each in free]
        yield f"| {name} | {' | '.join(shares + games)} |"


def _numbers(config: PreTrainedConfig) -> tuple[ModelNumbers, ModelNumbers, ModelNumbers]:
    """A model's numbers in float32, in bfloat16, and in bfloat16 with adapters."""
    with tempfile.TemporaryDirectory() as directory:
        config.save_pretrained(Path(directory))
        lora = LoraSettings(rank=RANK)
        return (
            load_numbers(ModelSettings(path=directory)),
            load_numbers(ModelSettings(path=directory, dtype="bfloat16")),
            load_numbers(ModelSettings(path=directory, dtype="bfloat16", lora=lora)),
        )


def _counted(numbers: ModelNumbers) -> int:
    """Weights, gradients and the two numbers of AdamW, in bytes."""
    return weight_bytes(numbers) + training_bytes(numbers)


def _row(*sizes: int) -> str:
    return " | ".join(f"{size / _GIB:.2f}" if size < _GIB else f"{size / _GIB:.1f}" for size in sizes)


if __name__ == "__main__":
    print("\n".join(tables()))
