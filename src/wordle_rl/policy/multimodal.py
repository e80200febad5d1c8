"""Load only the text part of multimodal models, since Wordle has no pictures and a vision tower would waste memory.

Gemma 3 (from 4B), Gemma 4, Mistral 3 and others are published as text model and vision tower in one. Only the text part
is loaded, as the causal model that transformers has for it. It is trained, counted and saved as such, and adapters fit
it. transformers does not do this itself: as a causal model it loads everything, and as the text class it finds none of
the weight names it expects and leaves every weight random. Qwen3.5 and Llama 4 need no help.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import hf_hub_download
from huggingface_hub.errors import EntryNotFoundError
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME
from transformers.utils import logging as library_logging

from wordle_rl.config.base import MOST_LAYERS, ConfigError
from wordle_rl.runs import RunError, read_object

_NAMES = {
    r"^(?:language_model\.model|model\.language_model|model\.text_model)\.": "model.",
    r"^language_model\.lm_head\.": "lm_head.",
}
"""Key prefix of the text part in the whole model (as published, and as newer releases save it) -> in a causal model."""
_SAFE: dict[str, Any] = {"use_safetensors": True, "trust_remote_code": False}
"""Read no pickles, and run no code that comes with a model."""

_SHARD = re.compile(r"[^/\\]+\.safetensors")
_SAFETENSORS_ALONE = "they are loaded from .safetensors files beside it alone; have the model saved as such"


def language_config(path: str) -> PreTrainedConfig:
    """Return the configuration of the model to load: the model's, or that of its text part."""
    stored, _ = PreTrainedConfig.get_config_dict(path)
    if not isinstance(stored, dict):
        raise ConfigError(f"config.json of {path} holds no settings; copy the model again")
    for sizes in (stored, stored.get("text_config")):
        layers = sizes.get("num_hidden_layers") if isinstance(sizes, dict) else None
        if isinstance(layers, int) and layers > MOST_LAYERS:
            raise ConfigError(f"{path}: num_hidden_layers {layers:,} in config.json is above {MOST_LAYERS}; mend it")
    if not _SHARD.fullmatch(weights := str(stored.get("transformers_weights") or SAFE_WEIGHTS_NAME)):
        raise ConfigError(f"config.json of {path} names the weights {weights!r}; {_SAFETENSORS_ALONE}")
    if kernel := _named_kernel(stored):
        raise ConfigError(
            f"config.json of {path} names the attention {kernel}, code of the hub that is only loaded if "
            "model.attn_implementation asks for it; remove it from config.json"
        )
    config: PreTrainedConfig = AutoConfig.from_pretrained(path, trust_remote_code=False)
    config._attn_implementation = None  # attention is for the caller to choose, not for the file
    text = config.get_text_config()
    if text.model_type in ("minimax", "rwkv"):  # their linear attention has no mask
        raise ConfigError(
            f"{path} ({text.model_type}) reads padding as text, so games of different lengths cannot be played side by "
            "side; choose another model"
        )
    if {*(getattr(text, "layer_types", None) or ())} == {"linear_attention"} and "mamba" not in text.model_type:
        # `generate` asks its cache how long it is, which only layers with keys and values know.
        raise ConfigError(
            f"{path} ({text.model_type}) has linear-attention layers alone, and transformers generates with those of "
            "Mamba only; choose another model"
        )
    if not _is_more_than_text(config):
        return config
    if text.model_type not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise ConfigError(
            f"{path} is a multimodal model ({config.model_type}), and transformers has no model for its text part; "
            "choose a text model"
        )
    text.dtype = text.dtype or config.dtype
    return text


def check_shards(path: str) -> None:
    """Refuse a directory or hub model whose index of shards names anything but safetensors beside it.

    transformers reads whatever the index names, and a pickle can run code.
    """
    index = Path(path) / SAFE_WEIGHTS_INDEX_NAME
    try:
        if not Path(path).is_dir():
            index = Path(hf_hub_download(path, SAFE_WEIGHTS_INDEX_NAME))
        if not index.is_file():
            return
        shards = {str(shard) for shard in read_object(index)["weight_map"].values()}
    except EntryNotFoundError:  # the hub model is not sharded
        return
    except (RunError, KeyError, AttributeError):
        raise ConfigError(f"{index} is no index of weights; copy the model again") from None
    if strays := sorted(shard for shard in shards if not _SHARD.fullmatch(shard)):
        raise ConfigError(f"{index} names the weights {strays[0]!r}; {_SAFETENSORS_ALONE}")


def _named_kernel(stored: Any) -> str | None:
    # The attention that a configuration names, at any depth, if it is a repository of the hub: transformers would fetch
    # and load its native code.
    if isinstance(stored, list):
        return next(filter(None, map(_named_kernel, stored)), None)
    if not isinstance(stored, dict):
        return None
    for key, value in stored.items():
        found = json.dumps(value) if "attn_implementation" in key else ""
        if "/" in found or (found := _named_kernel(value) or ""):
            return found
    return None


def is_text_part(path: str) -> bool:
    """Return True if only the text part of a directory or hub model is loaded."""
    return _is_more_than_text(AutoConfig.from_pretrained(path, trust_remote_code=False))


def _is_more_than_text(config: PreTrainedConfig) -> bool:
    # True if transformers would load more than a causal text model.
    made_by = str(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(config.model_type))
    return config.get_text_config() is not config and not made_by.endswith("ForCausalLM")


def load_language_model(path: str, dtype: torch.dtype | str, **extra: Any) -> PreTrainedModel:
    """Load a causal model, or the text part of a larger one; `extra` are arguments of `from_pretrained`."""
    config = language_config(path)
    check_shards(path)
    if not is_text_part(path):
        whole: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
            path, config=config, dtype=dtype, **_SAFE, **extra
        )
        return whole
    with _quiet():  # it would list the vision tower's weights as unused
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            path, config=config, dtype=dtype, key_mapping=_NAMES, output_loading_info=True, **_SAFE, **extra
        )
    model, found = loaded
    if missing := sorted(found["missing_keys"]):
        raise ConfigError(f"{path} lacks {missing[0]} of its text part; copy the model again")
    # Saving would restore the published names, which the causal class does not expect.
    model._weight_conversions = None
    part: PreTrainedModel = model
    return part


@contextmanager
def _quiet() -> Iterator[None]:
    level = library_logging.get_verbosity()
    library_logging.set_verbosity_error()
    try:
        yield
    finally:
        library_logging.set_verbosity(level)
