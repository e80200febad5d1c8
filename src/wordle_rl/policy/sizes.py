"""Sizes of a model, read off its configuration and parameters, and of a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

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
    window: int | None = None  # tokens that a layer with a window of attention sees
    has_keys_and_values: bool = True  # in every layer: no recurrent states in their place

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


def numbers_of(model: PreTrainedModel, weight_bytes: int, num_four_bit: int = 0) -> ModelNumbers:
    """Count a model, which needs no weights."""
    text = model.config.get_text_config()
    parameters = list(model.parameters())
    hidden = int(text.hidden_size)
    heads, kv_heads, head_dim = attention_sizes(text)
    experts = int(getattr(text, "num_experts_per_tok", None) or 1)
    inside = largest_size(text, "moe_intermediate_size") or largest_size(text, "intermediate_size") or 4 * hidden
    return ModelNumbers(
        num_parameters=sum(parameter.numel() for parameter in parameters),
        num_trainable=sum(parameter.numel() for parameter in parameters if parameter.requires_grad),
        num_layers=int(text.num_hidden_layers),
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        hidden_size=hidden,
        intermediate_size=inside * experts,
        vocab_size=int(text.vocab_size),
        weight_bytes=weight_bytes,
        context=context_length(model),
        num_four_bit=num_four_bit,
        trainable_bytes=next(parameter.dtype.itemsize for parameter in parameters if parameter.requires_grad),
        num_shared_layers=num_shared_layers(text),
        window=getattr(text, "sliding_window", None),
        has_keys_and_values=has_keys_and_values(text),
    )


def context_length(model: PreTrainedModel) -> int | None:
    """Return the context length in tokens, or None if unknown."""
    length = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return int(length) if length is not None else None


def attention_sizes(text_config: PreTrainedConfig) -> tuple[int, int, int]:
    """Return the number of heads, of key/value heads, and the size of a head; the largest if layers differ."""
    heads = int(getattr(text_config, "num_attention_heads", None) or getattr(text_config, "num_heads", None) or 1)
    head_dim = largest_size(text_config, "head_dim") or int(text_config.hidden_size) // heads
    return heads, largest_size(text_config, "num_key_value_heads") or heads, head_dim


def largest_size(text_config: PreTrainedConfig, name: str) -> int | None:
    """Return a size of the layers, the largest if they differ (Gemma 4); None if the configuration lacks it."""
    sizes: list[int] = []
    for layer in getattr(text_config, "per_layer_config", None) or [text_config]:  # older releases have no such list
        size = getattr(layer, name, None)
        sizes += size if isinstance(size, list) else [size or 0]
    return max(sizes, default=0) or None


def num_shared_layers(text_config: PreTrainedConfig) -> int:
    """Return how many layers at the end reuse the keys and values of earlier layers."""
    return int(getattr(text_config, "num_kv_shared_layers", None) or 0)


def has_keys_and_values(text_config: PreTrainedConfig) -> bool:
    """Return True if every layer attends to the past, the whole or a window of it: no recurrent states."""
    return {*(getattr(text_config, "layer_types", None) or ())} <= {"full_attention", "sliding_attention"}
