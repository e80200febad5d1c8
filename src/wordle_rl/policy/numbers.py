"""Sizes of a model and of memory: `ModelNumbers`, `Device`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelNumbers:
    """Sizes of a model for memory estimates. If layers differ, each counts as the largest.

    Attributes:
        num_parameters: All parameters.
        num_trainable: Parameters with gradients: all, or those of adapters.
        num_layers: Transformer layers.
        num_heads: Query heads per layer.
        num_kv_heads: Key/value heads per layer.
        head_dim: Width of a head.
        hidden_size: Width of the residual stream.
        intermediate_size: Width of the feed-forward layer, times the active experts.
        vocab_size: Rows of the embedding.
        weight_bytes: Bytes per loaded number: 4 for float32, 2 for bfloat16.
        context: Context length in tokens, None if unknown.
        num_four_bit: Parameters stored in 4 bits.
        trainable_bytes: Bytes per number with a gradient (peft keeps adapters in float32); 0: `weight_bytes`.
        num_shared_layers: Last layers that reuse the keys and values of earlier ones.
    """

    num_parameters: int
    num_trainable: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    hidden_size: int
    intermediate_size: int
    vocab_size: int
    weight_bytes: int
    context: int | None = None
    num_four_bit: int = 0
    trainable_bytes: int = 0
    num_shared_layers: int = 0

    @property
    def num_whole(self) -> int:
        """Parameters stored in `weight_bytes` each."""
        return self.num_parameters - self.num_four_bit


@dataclass(frozen=True, slots=True)
class Device:
    """Training device: name, memory in bytes (None if unknown), number of such devices."""

    name: str
    num_bytes: int | None
    count: int = 1
