"""verl's worker of a critic, with the attention that the run's config names.

verl loads the model of every critic with FlashAttention 2 and takes no other, also where the policy has been given one.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoModelForTokenClassification, PreTrainedConfig, PreTrainedModel
from verl.utils import model as verl_models
from verl.workers.engine_workers import TrainingWorker

from wordle_rl.config import ConfigError


class CriticWorker(TrainingWorker):
    """A process that trains a shard of the critic."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        verl_models.load_valuehead_model = load_value_model


def load_value_model(
    local_path: str, torch_dtype: torch.dtype, model_config: PreTrainedConfig, trust_remote_code: bool
) -> PreTrainedModel:
    """Load a policy's weights under a new head of one output, with the attention of `model_config`.

    Args:
        local_path: Directory of the model.
        torch_dtype: Of the weights.
        model_config: Its `num_labels` is 1.
        trust_remote_code: False; code that lies beside the weights is never run.

    Raises:
        ConfigError: If it is True.
    """
    if trust_remote_code:
        raise ConfigError("the critic's model may not run code of its own; leave trust_remote_code out of --overrides")
    model = AutoModelForTokenClassification.from_pretrained(
        local_path, dtype=torch_dtype, config=model_config, trust_remote_code=False, use_safetensors=True
    )
    assert isinstance(model, PreTrainedModel)
    return model
