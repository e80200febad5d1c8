"""Merge adapters and quantized weights into one whole model that everything else can read.

Quantized weights are dequantized before adapters are added; quantizing the sum again would lose small updates. The
saved model is read back, and its logits are compared with those of the trained model.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Literal

import mlx.core as mx
from mlx_lm.utils import dequantize_model

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import ConfigError, ModelSettings
from wordle_rl.mlx import adapters
from wordle_rl.mlx.model import MLXModel, check_names, head_of, load_model, save_model
from wordle_rl.policy.directory import settings_of
from wordle_rl.policy.export import probe_tokens
from wordle_rl.runs import RunError

Dtype = Literal["float32", "bfloat16"]
TOLERANCE: dict[Dtype, float] = {"float32": 1e-4, "bfloat16": 0.1}
"""Largest distance of logits that rounding explains: root mean square difference, in standard deviations."""


def fuse(directory: Path, out: Path, dtype: Dtype = "float32") -> float:
    """Make one whole model from an adapter and its base, or from quantized weights.

    Args:
        directory: The adapter, or the weights.
        out: The new transformers directory.
        dtype: Type of the stored weights.

    Returns:
        The distance between the logits of the saved model and the original.

    Raises:
        ConfigError: If there is nothing to fuse, or `out` is not empty.
        RunError: If the logits differ by more than rounding. Nothing is left behind.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} is not empty; name another --out")
    settings = settings_of(directory).model_copy(update={"dtype": "float32"})
    model, codec = load_model(settings, 0)
    if model.lora is None and not model.is_quantized:
        raise ConfigError(f"{directory} holds a whole model, so there is nothing to fuse")
    expected = _logits(model, codec)
    whole = fused(model)
    whole.network.set_dtype(getattr(mx, dtype))
    save_model(whole, codec, out)
    found = _logits(load_model(ModelSettings(path=str(out), dtype="float32"), 0)[0], codec)
    difference = distance(found, expected)
    if not difference <= TOLERANCE[dtype]:  # written so that NaN fails too
        shutil.rmtree(out)
        raise RunError(
            f"the fused model is not the model before: logits differ by {difference:.3g} standard deviations, "
            f"{TOLERANCE[dtype]:g} are allowed in {dtype}; play the adapter as it is, or fuse with --dtype float32"
        )
    return difference


def fused(model: MLXModel) -> MLXModel:
    """Return the model with whole weights and without adapters. Changes it in place."""
    adapters.fused(model.network)
    dequantize_model(model.network)
    check_names(model.weights(), model.config, model.base)
    return replace(model, head=head_of(model.network), lora=None)


def distance(found: mx.array, expected: mx.array) -> float:
    """Return the root mean square difference, in standard deviations of `expected`."""
    difference = mx.sqrt(mx.mean(mx.square(found - expected))) / mx.std(expected)
    return float(difference.item())


def _logits(model: MLXModel, codec: ChatCodec) -> mx.array:
    tokens = mx.array(probe_tokens(codec, model.config.vocab_size).numpy())
    model.network.eval()
    logits = model.logits(tokens).astype(mx.float32)
    mx.eval(logits)
    return logits
