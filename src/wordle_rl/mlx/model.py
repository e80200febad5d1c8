"""Models in MLX: built, or loaded from transformers directories, saved as such again, and merged into whole ones.

Names and shapes of the weights equal those of transformers, so that every other tool can play, merge, publish and train
the result. A model family that differs is refused when it is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import torch
from huggingface_hub import snapshot_download
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm.models import qwen3
from mlx_lm.utils import dequantize_model
from mlx_lm.utils import load_model as load_network
from mlx_lm.utils import save_model as save_network
from transformers import AutoModelForCausalLM, GenerationConfig, PreTrainedConfig, PreTrainedModel

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config.base import ConfigError
from wordle_rl.config.model import ModelSettings
from wordle_rl.mlx import adapters
from wordle_rl.policy import loading
from wordle_rl.policy.adapters import base_of, is_adapter
from wordle_rl.policy.directory import at_directory, settings_of
from wordle_rl.policy.multimodal import is_text_part, language_config
from wordle_rl.policy.whole_models import check_empty, checked, probe_tokens
from wordle_rl.runs.checksums import check_sealed

Weights = dict[str, mx.array]
"""Weights by transformers' names."""

QUANTIZED_BITS, QUANTIZED_GROUP = 4, 64
_FILES = ["*.json", "*.safetensors", "*.jinja", "*.model", "*.txt"]


@dataclass(frozen=True)
class Head:
    """The last layer: hidden states, shape (..., width), to logits, shape (..., vocabulary).

    `module` holds its weights; if they are tied, it is the embedding.
    """

    module: Any
    apply: Callable[[mx.array], mx.array]


@dataclass(frozen=True)
class MLXModel:
    """An MLX network, and what transformers must know about it.

    Attributes:
        config: transformers' configuration of the model, or of its text part.
        base: Origin of the weights: a directory, a hub name, or `tiny`.
        head: The head apart from the rest, to compute logits only where needed; None if it cannot be separated.
    """

    network: Any
    config: PreTrainedConfig
    base: str
    head: Head | None
    lora: adapters.LoraShape | None = None

    def weights(self) -> Weights:
        """Return all weights, frozen ones included."""
        return dict(tree_flatten(self.network.parameters()))

    def trainable(self) -> Weights:
        """Return the weights that training changes."""
        return dict(tree_flatten(self.network.trainable_parameters()))

    def take(self, weights: Weights) -> None:
        """Replace the weights of these names."""
        self.network.update(tree_unflatten(list(weights.items())))
        mx.eval(self.network.parameters())

    def hidden(self, tokens: mx.array) -> mx.array:
        """Return hidden states before the head, shape (B, T, width), of token ids of shape (B, T)."""
        return self.network.model(tokens)

    def logits(self, tokens: mx.array) -> mx.array:
        """Return logits, shape (B, T, vocabulary), of token ids of shape (B, T)."""
        return self.network(tokens)

    @property
    def is_quantized(self) -> bool:
        """True if any layer is quantized."""
        return any(isinstance(module, nn.QuantizedLinear) for module in self.network.modules())


def load_model(settings: ModelSettings, seed: int) -> tuple[MLXModel, ChatCodec]:
    """Build the embedded model, or load a directory or hub name, with the codec of its tokenizer.

    `seed` is that of new weights: the embedded model's, and untrained adapters'.
    """
    if settings.path == "tiny":
        whole, codec = loading.load_model(settings, seed)
        return of_transformers(whole), codec
    settings = at_directory(settings)
    codec = loading.load_codec(settings)
    source = base_of(Path(settings.path)) if is_adapter(settings.path) else settings.path
    for directory in (settings.path, source):
        check_sealed(Path(directory))
    model = _load_directory(source, settings)
    if settings.load_in_4bit and not model.is_quantized:
        quantize(model.network)
    if is_adapter(settings.path):
        shape = adapters.load_adapters(model.network, Path(settings.path), settings.lora)
        model = replace(model, lora=shape)
    elif settings.lora.rank:
        model = replace(model, lora=adapters.add_adapters(model.network, settings.lora, source, seed))
    mx.eval(model.network.parameters())
    return model, codec


def of_transformers(whole: PreTrainedModel) -> MLXModel:
    """Convert a transformers model of the Qwen3 family, such as the embedded one, to MLX."""
    config = whole.config.get_text_config()
    network = qwen3.Model(qwen3.ModelArgs.from_dict(config.to_dict()))
    weights = {name: from_torch(tensor) for name, tensor in whole.state_dict().items()}
    network.load_weights(list(network.sanitize(weights).items()))
    mx.eval(network.parameters())
    return MLXModel(network, config, "tiny", head_of(network))


def from_torch(tensor: torch.Tensor) -> mx.array:
    """Convert a tensor to an array of the same type. bfloat16 goes through float32, since NumPy has no bfloat16."""
    tensor = tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:
        return mx.array(tensor.float().numpy()).astype(mx.bfloat16)
    return mx.array(tensor.numpy())


def _load_directory(source: str, settings: ModelSettings) -> MLXModel:
    config = language_config(source)
    try:
        directory = Path(source) if Path(source).is_dir() else Path(snapshot_download(source, allow_patterns=_FILES))
        network, stored = load_network(directory, lazy=True, model_config=spelled_out(config, source))
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        first_line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ConfigError(f"MLX cannot load a model from {source!r}: {first_line}") from error
    network = getattr(network, "language_model", network)  # the text part of a multimodal model
    if settings.dtype != "auto":
        network.set_dtype(getattr(mx, settings.dtype))
    if "quantization" not in stored:
        check_names(dict(tree_flatten(network.parameters())), config, source)
    return MLXModel(network, config, source, head_of(network))


def spelled_out(config: PreTrainedConfig, source: str) -> dict[str, Any]:
    """Return settings of positions and attention windows by mlx-lm's names.

    transformers 5 nests these settings and omits its defaults, and mlx-lm would use other defaults.
    """
    rope = getattr(config, "rope_parameters", None) or {}
    everywhere = rope.get("full_attention", rope)
    named: dict[str, Any] = {}
    if "rope_theta" in everywhere:
        named["rope_theta"] = everywhere["rope_theta"]
        named["rope_scaling"] = everywhere if everywhere.get("rope_type", "default") != "default" else None
    if "sliding_attention" in rope:
        named["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        named["sliding_window_pattern"] = _pattern(config.layer_types, source)
    if not is_text_part(source):
        return named
    return {"text_config": {**config.to_dict(), **named}, "vocab_size": config.vocab_size}


def _pattern(layer_types: Sequence[str], source: str) -> int:
    # Distance from one layer with full attention to the next.
    every = layer_types.index("full_attention") + 1 if "full_attention" in layer_types else len(layer_types) + 1
    expected = [
        "full_attention" if not place % every else "sliding_attention" for place in range(1, len(layer_types) + 1)
    ]
    if expected != list(layer_types):
        raise ConfigError(f"{source} has windows in no fixed pattern of layers, which MLX does not know; use torch")
    return every


def check_names(weights: Weights, config: PreTrainedConfig, source: str) -> None:
    """Refuse a model whose names and shapes of weights differ from those that transformers expects."""
    with torch.device("meta"):
        whole = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    expected = {name: tuple(tensor.shape) for name, tensor in whole.state_dict().items()}
    found = {name: tuple(array.shape) for name, array in weights.items()}
    if "lm_head.weight" not in found:
        expected.pop("lm_head.weight", None)  # tied to the embedding
    if strays := sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)):
        raise ConfigError(
            f"MLX stores {strays[0]} of {source} differently from transformers ({found.get(strays[0])} instead of "
            f"{expected.get(strays[0])}), so nothing else could use the trained model; choose another one"
        )


def quantize(network: Any) -> None:
    """Quantize the linear layers, except the head, to 4 bits."""
    nn.quantize(
        network,
        group_size=QUANTIZED_GROUP,
        bits=QUANTIZED_BITS,
        class_predicate=lambda name, module: (
            isinstance(module, nn.Linear)
            and not name.endswith("lm_head")
            and module.weight.shape[-1] % QUANTIZED_GROUP == 0
        ),
    )


def head_of(network: Any) -> Head | None:
    """Return the head if it gives exactly the whole network's logits on a few tokens, else None.

    Equality is exact, since a cap on logits changes small ones by less than any tolerance.
    """
    body = getattr(network, "model", None)
    if body is None:
        return None
    tied = "lm_head" not in network
    module = body.embed_tokens if tied else network.lm_head
    head = Head(module, module.as_linear if tied else module)
    tokens = mx.array([[0, 1, 2, 3]])
    expected, found = network(tokens), head.apply(body(tokens))
    return head if bool(mx.array_equal(expected, found)) else None


def bar_of(codec: ChatCodec, vocab_size: int) -> mx.array | None:
    """Return a summand of logits, shape (vocabulary,), that rules out `ChatCodec.unknown_ids`; None if there are none.

    It is finite: in an entropy, 0 times infinity would not be a number.
    """
    unknown = codec.unknown_ids(vocab_size)
    if not unknown:
        return None
    bar = np.zeros(vocab_size, dtype=np.float32)
    bar[list(unknown)] = -1e30
    return mx.array(bar)


@contextmanager
def mode_kept(network: Any, *, training: bool) -> Iterator[None]:
    """Put the network in training or evaluation mode, and restore its mode on exit."""
    before = network.training
    network.train(training)
    try:
        yield
    finally:
        network.train(before)


def save_model(model: MLXModel, codec: ChatCodec, directory: Path) -> None:
    """Save weights, tokenizer and chat template as a transformers directory, or adapters as a peft directory."""
    with loading.written_whole(directory) as partial:
        if model.lora is not None:
            adapters.save_adapters(model.network, model.lora, partial)
        else:
            if model.is_quantized:
                raise ConfigError(f"{model.base} is quantized and cannot be saved as a transformers model; fuse it")
            partial.mkdir(parents=True, exist_ok=True)
            save_network(partial, model.network)
            _save_config(model, codec, partial)
        codec.tokenizer.save_pretrained(partial)


def read_model(model: MLXModel, directory: Path) -> None:
    """Load the weights of a directory written by `save_model`."""
    check_sealed(directory)
    if model.lora is not None:
        model.take(adapters.read_adapters(directory, model.lora.layers))
        return
    model.take({name: weight for path in directory.glob("model*.safetensors") for name, weight in read(path).items()})


def read(path: Path) -> Weights:
    """Read a file of weights at once, since MLX is lazy and the file may be removed."""
    weights: Weights = mx.load(str(path), format="safetensors")
    mx.eval(weights)
    return weights


def _save_config(model: MLXModel, codec: ChatCodec, directory: Path) -> None:
    # The generation settings name every token that ends a turn.
    types = {str(array.dtype).removeprefix("mlx.core.") for array in model.weights().values()}
    model.config.dtype = getattr(torch, types.pop()) if len(types) == 1 else torch.float32
    with torch.device("meta"):
        whole = AutoModelForCausalLM.from_config(model.config, trust_remote_code=False)
        model.config.architectures = [type(whole).__name__]
    model.config.save_pretrained(directory)
    generation = GenerationConfig.from_model_config(model.config)
    stops = sorted(codec.stop_ids)
    generation.eos_token_id = stops if len(stops) > 1 else stops[0]
    generation.save_pretrained(directory)


def fuse(directory: Path, out: Path, dtype: Literal["float32", "bfloat16"] = "float32") -> float:
    """Make one whole model from an adapter and its base, or from quantized weights; see `policy.export.merge`.

    Quantized weights are dequantized before adapters are added; quantizing the sum again would lose small updates. The
    saved model is read back, and its logits are compared with those of the trained model.
    """
    check_empty(out)
    settings = settings_of(directory).model_copy(update={"dtype": "float32"})
    model, codec = load_model(settings, 0)
    if model.lora is None and not model.is_quantized:
        raise ConfigError(f"{directory} holds a whole model, so there is nothing to merge")
    expected = _logits(model, codec)
    whole = fused(model)
    whole.network.set_dtype(getattr(mx, dtype))
    save_model(whole, codec, out)
    found = _logits(load_model(ModelSettings(path=str(out), dtype="float32"), 0)[0], codec)
    return checked(out, found, expected, dtype)


def fused(model: MLXModel) -> MLXModel:
    """Return the model with whole weights and without adapters. Changes it in place."""
    adapters.fused(model.network)
    dequantize_model(model.network)
    check_names(model.weights(), model.config, model.base)
    return replace(model, head=head_of(model.network), lora=None)


def _logits(model: MLXModel, codec: ChatCodec) -> np.ndarray:
    tokens = mx.array(probe_tokens(codec, model.config.vocab_size).numpy())
    model.network.eval()
    return np.array(model.logits(tokens).astype(mx.float32))
