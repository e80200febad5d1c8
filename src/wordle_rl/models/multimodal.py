"""The text part of models that can also see: Wordle has no pictures, so a vision tower would only take room.

Gemma 3 (from 4B on), Gemma 4, Mistral 3 and others are published as text model and vision tower in one. Of such a
directory the text part alone is loaded, as the causal model of its own that transformers has for it; it is trained,
counted and saved as that, and an adapter trained on it fits that. transformers does not do so by itself: asked for a
causal model it loads the whole, asked for the text class it finds none of the names it looks for and leaves every
weight random. Of Qwen3.5 and Llama 4 it takes the text part by itself.
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
"""Key prefix of the text part in the whole model (as published, as saved by newer releases) -> in a causal model."""
_SAFE: dict[str, Any] = {"use_safetensors": True, "trust_remote_code": False}
"""No pickle is read, and no code that comes with a model is run."""


def language_config(path: str) -> PreTrainedConfig:
    """The configuration of what is loaded from a directory or hub name: of the model, or of its text part.

    Raises:
        ConfigError: If the model is more than text and transformers has no causal model for its text part.
    """
    config: PreTrainedConfig = AutoConfig.from_pretrained(path, trust_remote_code=False)
    text = config.get_text_config()
    if not _is_more_than_text(config):
        return config
    if text.model_type not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise ConfigError(
            f"{path} is a model of text and more ({config.model_type}), whose text part is no model of its own in "
            "transformers; choose a text model"
        )
    text.dtype = text.dtype or config.dtype
    return text


def is_text_part(path: str) -> bool:
    """True if what is loaded from a directory or hub name is only the text part of what is there."""
    return _is_more_than_text(AutoConfig.from_pretrained(path, trust_remote_code=False))


def _is_more_than_text(config: PreTrainedConfig) -> bool:
    """True if transformers would load more than a causal model of text."""
    made_by = str(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(config.model_type))
    return config.get_text_config() is not config and not made_by.endswith("ForCausalLM")


def load_language_model(path: str, dtype: torch.dtype | str, **extra: Any) -> PreTrainedModel:
    """Load a causal model, or the text part of a larger one.

    Args:
        path: A directory or hub name.
        dtype: What to hold the weights in; "auto": what they are stored in.
        extra: Further arguments of `from_pretrained`.

    Raises:
        ConfigError: If the text part is not known, or not whole.
    """
    config = language_config(path)
    if not is_text_part(path):
        whole: PreTrainedModel = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, **_SAFE, **extra)
        return whole
    with _quiet():  # the vision tower's weights are left out on purpose
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            path, config=config, dtype=dtype, key_mapping=_NAMES, output_loading_info=True, **_SAFE, **extra
        )
    model, found = loaded
    if missing := sorted(found["missing_keys"]):
        raise ConfigError(f"{path} lacks {missing[0]} of its text part; copy the model again")
    # Saving would turn the names back, into none that any class looks for.
    model._weight_conversions = None
    part: PreTrainedModel = model
    return part


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the library's list of weights that were left out."""
    level = library_logging.get_verbosity()
    library_logging.set_verbosity_error()
    try:
        yield
    finally:
        library_logging.set_verbosity(level)
