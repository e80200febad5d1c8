"""Sizes of a model and of the memory it is held in: `ModelNumbers`, `Device`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelNumbers:
    """Sizes of a model that a memory estimate needs.

    `num_trainable` are the parameters that get gradients: all of them, or those of adapters. `weight_bytes` is the
    size of one number as the model is loaded: 4 for float32, 2 for bfloat16. `context` is the most tokens it takes,
    None if unknown. `num_four_bit` of the parameters are held in 4 bits instead. `trainable_bytes` is the size
    of one number that gets gradients, where it is another (peft keeps adapters in float32); 0: `weight_bytes`.
    `num_shared_layers`, the last ones, read the keys and values of earlier layers. Where layers differ in their heads
    or their width, each is counted as the largest.
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
        """Parameters that are held in `weight_bytes` each."""
        return self.num_parameters - self.num_four_bit


@dataclass(frozen=True, slots=True)
class Device:
    """Device of a training: name, memory in bytes if known, and number of such devices."""

    name: str
    num_bytes: int | None
    count: int = 1
