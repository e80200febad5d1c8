"""Low-rank adapters on an MLX network, stored in peft's format.

Source: LoRA, arXiv:2106.09685.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm.tuner.lora import LoRALinear
from peft import LoraConfig

from wordle_rl.config.base import ConfigError
from wordle_rl.config.model import LoraSettings
from wordle_rl.policy.adapters import ADAPTER_CONFIG, ADAPTER_WEIGHTS

_PREFIX = "base_model.model."
_OURS = {"lora_a": "lora_A.weight", "lora_b": "lora_B.weight"}
"""MLX's name -> peft's name. The matrices are transposed."""


@dataclass(frozen=True)
class LoraShape:
    """Shape of adapters: outputs are scaled by alpha / rank, `layers` names the adapted ones."""

    rank: int
    alpha: float
    dropout: float
    layers: tuple[str, ...]
    base: str


def add_adapters(network: Any, settings: LoraSettings, base: str, seed: int) -> LoraShape:
    """Freeze a network and add untrained adapters, in place. Until trained, they leave its outputs unchanged.

    `base` is the origin of the network; a directory is stored by its full path.
    """
    layers = tuple(linear_layers(network))
    if not layers:
        raise ConfigError(f"model.lora does not fit {base}: it has no linear layers")
    alpha = float(settings.alpha or 2 * settings.rank)
    where = str(Path(base).resolve()) if Path(base).is_dir() else base
    shape = LoraShape(settings.rank, alpha, 0.0, layers, where)
    mx.random.seed(seed)
    _put_on(network, shape)
    return shape


def linear_layers(network: Any) -> list[str]:
    """Return the sorted names of the linear layers, except the head."""
    kinds = (nn.Linear, nn.QuantizedLinear)
    return sorted(n for n, layer in network.named_modules() if isinstance(layer, kinds) and not n.endswith("lm_head"))


def _put_on(network: Any, shape: LoraShape) -> None:
    network.freeze()
    layers = dict(network.named_modules())
    adapted = [
        (name, LoRALinear.from_base(layers[name], r=shape.rank, dropout=shape.dropout, scale=shape.alpha / shape.rank))
        for name in shape.layers
    ]
    network.update_modules(tree_unflatten(adapted))


def load_adapters(network: Any, directory: Path, wanted: LoraSettings) -> LoraShape:
    """Add a trained adapter to its base network, ready for further training; refuse another rank or network."""
    config = json.loads((directory / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    if others := _others_in(config):
        raise ConfigError(
            f"the adapter {directory} has {', '.join(others)}, and MLX loads plain LoRA alone; merge it by wordle-rl "
            "export without --backend mlx"
        )
    rank = int(config["r"])
    if wanted.rank and wanted.rank != rank:
        raise ConfigError(
            f"model.lora.rank {wanted.rank} is not that of the adapter {directory}, {rank}; remove model.lora to train "
            "it further, or fuse it first (wordle-rl export --backend mlx)"
        )
    stored = mx.load(str(directory / ADAPTER_WEIGHTS))
    suffix = f".{_OURS['lora_a']}"
    layers = sorted(name.removeprefix(_PREFIX).removesuffix(suffix) for name in stored if name.endswith(suffix))
    known = {f"{_PREFIX}{layer}.{theirs}" for layer in layers for theirs in _OURS.values()}
    if strays := sorted({*layers}.difference(linear_layers(network))) or sorted(known ^ {*stored}):
        raise ConfigError(
            f"the adapter {directory} does not fit its base model: {strays[0]} …; merge it by wordle-rl export"
        )
    dropout = float(config.get("lora_dropout", 0.0))
    shape = LoraShape(rank, float(config["lora_alpha"]), dropout, tuple(layers), str(config["base_model_name_or_path"]))
    _put_on(network, shape)
    network.load_weights(list(read_adapters(directory, layers).items()), strict=False)
    return shape


def _others_in(config: Mapping[str, Any]) -> list[str]:
    # What peft knows and MLX does not, by peft's names.
    kind = config.get("peft_type", "LORA")
    asked = ("use_rslora", "use_dora", "rank_pattern", "alpha_pattern", "modules_to_save", "trainable_token_indices")
    found = [f"peft_type {kind}"] if kind != "LORA" else []
    found += [name for name in asked if config.get(name)]
    return [*found, "bias"] if config.get("bias", "none") != "none" else found


def read_adapters(directory: Path, layers: Sequence[str]) -> dict[str, mx.array]:
    """Read the stored adapters of some layers, by MLX's names."""
    stored: dict[str, mx.array] = mx.load(str(directory / ADAPTER_WEIGHTS))
    weights = {
        f"{layer}.{name}": stored[f"{_PREFIX}{layer}.{theirs}"].T.astype(mx.float32)
        for layer in layers
        for name, theirs in _OURS.items()
    }
    mx.eval(weights)
    return weights


def save_adapters(network: Any, shape: LoraShape, directory: Path) -> None:
    """Write the adapters as a directory that peft can read."""
    directory.mkdir(parents=True, exist_ok=True)
    weights = dict(tree_flatten(network.trainable_parameters()))
    stored = {
        f"{_PREFIX}{layer}.{theirs}": mx.contiguous(weights[f"{layer}.{name}"].T)
        for layer in shape.layers
        for name, theirs in _OURS.items()
    }
    mx.save_safetensors(str(directory / ADAPTER_WEIGHTS), stored, {"format": "pt"})
    config = LoraConfig(
        r=shape.rank,
        lora_alpha=shape.alpha,  # type: ignore[arg-type]  # peft accepts a float too
        lora_dropout=shape.dropout,
        target_modules=sorted({layer.rsplit(".", 1)[-1] for layer in shape.layers}),
        task_type="CAUSAL_LM",
        base_model_name_or_path=shape.base,
        inference_mode=True,
    )
    config.save_pretrained(str(directory))


def fused(network: Any) -> None:
    """Merge the adapters into their layers, in place. Quantized layers are dequantized first."""
    layers = [
        (name, layer.fuse(dequantize=True)) for name, layer in network.named_modules() if isinstance(layer, LoRALinear)
    ]
    network.update_modules(tree_unflatten(layers))
