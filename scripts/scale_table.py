"""Print the tables of docs/scale.md: what a GPU holds in GRPO under verl, from the numbers in models' config.json.

    python scripts/scale_table.py

Weights, gradients and Adam's moments are in float32 and sharded over all GPUs; the server's copy is in bfloat16 and
split over the GPUs of a server. A reference lies in main memory. Activations depend on the micro-batch alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass

GIB = 1024**3
GPUS = (1, 8, 64)
GPU_BYTES = 80 * 10**9
FRACTION = 0.7
LENGTH = 4096
TRAINED_BYTES = 4 + 4 + 8
"""Bytes of a trained number: itself, its gradient, Adam's two moments."""


@dataclass(frozen=True)
class Model:
    """Numbers of a model's config.json."""

    layers: int
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    tied: bool

    @property
    def parameters(self) -> int:
        """Number of weights."""
        attention = 2 * self.hidden * self.heads * self.head_dim + 2 * self.hidden * self.kv_heads * self.head_dim
        norms = 2 * self.hidden + 2 * self.head_dim
        layer = attention + 3 * self.hidden * self.inner + norms
        return self.layers * layer + self.hidden + self.vocabulary * self.hidden * (1 if self.tied else 2)

    @property
    def cache_bytes(self) -> int:
        """Key/value cache of one token in bfloat16."""
        return 2 * self.layers * self.kv_heads * self.head_dim * 2


MODELS = {
    "Qwen3-1.7B": Model(28, 2048, 6144, 16, 8, 128, 151_936, tied=True),
    "Qwen3-4B": Model(36, 2560, 9728, 32, 8, 128, 151_936, tied=True),
    "Qwen3-8B": Model(36, 4096, 12_288, 32, 8, 128, 151_936, tied=False),
}


def trainer_bytes(model: Model, gpus: int) -> float:
    """Bytes of one GPU's share of the trainer."""
    return model.parameters * TRAINED_BYTES / gpus


def games_at_once(model: Model, tensor_parallel: int) -> int:
    """Games of LENGTH tokens that fit into the caches of the GPUs that hold one server."""
    free = FRACTION * GPU_BYTES * tensor_parallel - 2 * model.parameters
    return max(0, int(free // (LENGTH * model.cache_bytes)))


def tables() -> Iterator[str]:
    """The lines of both tables, in markdown."""
    columns = " | ".join(f"{gpus} GPU{'s' * (gpus > 1)}" for gpus in GPUS)
    yield f"| trainer, GiB a GPU | parameters | {columns} |"
    yield "|---|---|" + "---|" * len(GPUS)
    for name, model in MODELS.items():
        shares = [f"{trainer_bytes(model, gpus) / GIB:.1f}" for gpus in GPUS]
        yield f"| {name} | {model.parameters / 1e9:.2f} billion | {' | '.join(shares)} |"
    yield ""
    yield f"| server | weights, GiB | cache of a token, KiB | games of {LENGTH:,} tokens at once, 1 GPU | 2 GPUs |"
    yield "|---|---|---|---|---|"
    for name, model in MODELS.items():
        weights, cache = 2 * model.parameters / GIB, model.cache_bytes / 1024
        yield f"| {name} | {weights:.1f} | {cache:.0f} | {games_at_once(model, 1)} | {games_at_once(model, 2)} |"


if __name__ == "__main__":
    print("\n".join(tables()))
