"""Peak memory of MLX against group size, LoRA rank and context, beside what preflight expects.

    python benchmarks/mlx_memory.py [--layers 4] [--width 128] [--vocabulary 16000] [--json]

A random model of Qwen3's shape in float32 with adapters on all layers plays a group of games of a context's length, a
token from its end, and is trained on them a game at a time. `play` is the peak of the first, `train` that of the
second, both less the weights; `expected` is preflight's sum for the same, less the weights too. Peaks are those of
MLX's own allocator, which counts on a processor as on a GPU.

Runs where MLX stands, as after `make test-mlx`.
"""

import argparse
import json
from dataclasses import dataclass

import mlx.core as mx
from mlx_lm.models import qwen3
from transformers import Qwen3Config

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config.model import LoraSettings
from wordle_rl.config.training import OptimizerSettings, SamplingSettings
from wordle_rl.mlx.adapters import add_adapters
from wordle_rl.mlx.learner import MLXLearner
from wordle_rl.mlx.model import MLXModel, head_of
from wordle_rl.mlx.sampler import MLXSampler
from wordle_rl.policy.base import Request
from wordle_rl.policy.sizes import ModelNumbers
from wordle_rl.policy.tiny import make_tokenizer
from wordle_rl.preflight.memory import Passes, cache_bytes, training_bytes
from wordle_rl.train.example import Example
from wordle_rl.train.loss import PolicyLoss

MIB = 1024**2
CASES = [
    *((group, 16, 256) for group in (2, 4, 8, 16)),
    *((4, rank, 256) for rank in (4, 64)),
    *((4, 16, context) for context in (128, 512)),
]
"""Group size, LoRA rank, context in tokens."""


@dataclass(frozen=True)
class Peak:
    """Peaks of one case, in MiB above the weights."""

    group_size: int
    rank: int
    context: int
    play: float
    train: float
    expected: float


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--layers", type=int, default=4)
    arguments.add_argument("--width", type=int, default=128)
    arguments.add_argument("--vocabulary", type=int, default=16_000)
    arguments.add_argument("--json", action="store_true")
    asked = arguments.parse_args()
    peaks = [measure(*case, asked.layers, asked.width, asked.vocabulary) for case in CASES]
    if asked.json:
        print(json.dumps([vars(peak) for peak in peaks]))
        return
    print("group size  rank  context  play, MiB  train, MiB  expected, MiB")
    for each in peaks:
        print(
            f"{each.group_size:>10}  {each.rank:>4}  {each.context:>7}  {each.play:>9.0f}  {each.train:>10.0f}  "
            f"{each.expected:>13.0f}"
        )


def measure(group_size: int, rank: int, context: int, layers: int, width: int, vocabulary: int) -> Peak:
    """Play and train one case."""
    codec = ChatCodec(make_tokenizer())
    model = _model(rank, context, layers, width, vocabulary)
    mx.eval(model.network.parameters())
    weights = mx.get_active_memory()
    prompts = [[7 + (place * (game + 3)) % 150 for place in range(context - 8)] for game in range(group_size)]
    sampler = MLXSampler(model, codec, SamplingSettings(max_completion_tokens=8))
    mx.reset_peak_memory()
    sampler.sample([Request(game, (), (), prompt) for game, prompt in enumerate(prompts)])
    play = mx.get_peak_memory() - weights
    sampler.begin()
    del sampler
    mx.clear_cache()
    half = context // 2
    rows = [_row(prompt, half, 1.0 - game % 2) for game, prompt in enumerate(prompts)]
    learner = MLXLearner(model, codec)
    learner.start(OptimizerSettings(), 1)
    optimizer = mx.get_active_memory() - weights
    mx.reset_peak_memory()
    learner.update([[row] for row in rows], PolicyLoss(), 1)
    train = mx.get_peak_memory() - weights - optimizer
    return Peak(group_size, rank, context, play / MIB, train / MIB, _expected(model, group_size, context) / MIB)


def _row(prompt: list[int], half: int, advantage: float) -> Example:
    """A game whose second half was sampled."""
    zeros, later = [0.0] * half, len(prompt) - half
    mask = [0] * half + [1] * later
    return Example(prompt, mask, advantages=[*zeros, *[advantage] * later], sampler_logprobs=[*zeros, *[-5.0] * later])


def _model(rank: int, context: int, layers: int, width: int, vocabulary: int) -> MLXModel:
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        num_key_value_heads=max(1, width // 128),
        head_dim=64,
        intermediate_size=3 * width,
        max_position_embeddings=context,
        tie_word_embeddings=True,
    )
    network = qwen3.Model(qwen3.ModelArgs.from_dict(config.to_dict()))
    shape = add_adapters(network, LoraSettings(rank=rank), "random", 0)
    return MLXModel(network, config, "random", head_of(network), shape)


def _expected(model: MLXModel, group_size: int, context: int) -> int:
    """The sum of preflight: adapters' gradients, activations, logits and the cache, without weights and optimizer."""
    config, trainable = model.config, sum(array.size for array in model.trainable().values())
    numbers = ModelNumbers(
        sum(array.size for array in model.weights().values()),
        trainable,
        config.num_hidden_layers,
        config.num_attention_heads,
        config.num_key_value_heads,
        config.head_dim,
        config.hidden_size,
        config.intermediate_size,
        config.vocab_size,
        4,
    )
    step = Passes(4, eager=True, piece=512).step_bytes(numbers, 1, context)
    return training_bytes(numbers) // 3 + max(step, cache_bytes(numbers, context, 2 * group_size))


if __name__ == "__main__":
    main()
