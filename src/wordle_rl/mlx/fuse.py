"""Merge adapters and quantized weights into one whole model that everything else can read.

Quantized weights are dequantized before adapters are added; quantizing the sum again would lose small updates. The
saved model is read back, and its logits are compared with those of the trained model.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import mlx.core as mx
import numpy as np
from mlx_lm.utils import dequantize_model

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import ConfigError, ModelSettings
from wordle_rl.mlx import adapters
from wordle_rl.mlx.model import MLXModel, check_names, head_of, load_model, save_model
from wordle_rl.policy.directory import settings_of
from wordle_rl.policy.export import check_empty, checked, probe_tokens

Dtype = Literal["float32", "bfloat16"]


def fuse(directory: Path, out: Path, dtype: Dtype = "float32") -> float:
    """Make one whole model from an adapter and its base, or from quantized weights; see `policy.export.merge`."""
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
