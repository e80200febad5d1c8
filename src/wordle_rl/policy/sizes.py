"""Sizes of a model and of memory: `ModelNumbers`, `Device`."""

from __future__ import annotations

from dataclasses import dataclass

FEW_WEIGHTS = 10_000_000
"""Most parameters of a model that counts as small. On a CPU it plays in float32, and freed memory is left to glibc."""


@dataclass(frozen=True, slots=True)
class ModelNumbers:
    """Sizes of a model for memory estimates. If layers differ, each counts as the largest."""

    num_parameters: int
    num_trainable: int  # all, or those of adapters
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    hidden_size: int
    intermediate_size: int  # times the active experts
    vocab_size: int
    weight_bytes: int  # per loaded number: 4 for float32, 2 for bfloat16
    context: int | None = None  # in tokens, None if unknown
    num_four_bit: int = 0  # parameters stored in 4 bits
    trainable_bytes: int = 0  # per number with a gradient (peft keeps adapters in float32); 0: `weight_bytes`
    num_shared_layers: int = 0  # last layers that reuse the keys and values of earlier ones
    full_attention: bool = True  # in every layer: no windows, no states in place of keys and values

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
