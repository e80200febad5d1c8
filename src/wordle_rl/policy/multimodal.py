"""Load only the text part of multimodal models, since Wordle has no pictures and a vision tower would waste memory.

Gemma 3 (from 4B), Gemma 4, Mistral 3 and others are published as text model and vision tower in one. Only the text part
is loaded, as the causal model that transformers has for it. It is trained, counted and saved as such, and adapters fit
it. transformers does not do this itself: as a causal model it loads everything, and as the text class it finds none of
the weight names it expects and leaves every weight random. Qwen3.5 and Llama 4 need no help.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.utils import logging as library_logging

from wordle_rl.config import ConfigError

_NAMES = {
    r"^(?:language_model\.model|model\.language_model|model\.text_model)\.": "model.",
    r"^language_model\.lm_head\.": "lm_head.",
}
"""Key prefix of the text part in the whole model (as published, and as newer releases save it) -> in a causal model."""
_SAFE: dict[str, Any] = {"use_safetensors": True, "trust_remote_code": False}
"""Read no pickles, and run no code that comes with a model."""


def language_config(path: str) -> PreTrainedConfig:
    """Return the configuration of the model to load: the model's, or that of its text part."""
    config: PreTrainedConfig = AutoConfig.from_pretrained(path, trust_remote_code=False)
    text = config.get_text_config()
    if text.model_type == "minimax":  # its linear attention has no mask
        raise ConfigError(
            f"{path} ({text.model_type}) reads padding as text, so games of different lengths cannot be played side by "
            "side; choose another model"
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
    if not is_text_part(path):
        whole: PreTrainedModel = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, **_SAFE, **extra)
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
