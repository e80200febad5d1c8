"""Engine that plays a model's games; vLLM colocated with a training."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from wordle_rl.config.base import Section

BackendName = Literal["torch", "mlx"]
"""Library that holds, plays and trains a run's models."""

EngineName = Literal["transformers", "vllm", "mlx"]
"""Engine that draws a model's tokens: transformers or MLX in this process, or a vLLM engine."""


class VLLMSettings(Section):
    """A vLLM engine on the GPUs of a training, one in each process."""

    gpu_memory_utilization: float = Field(0.3, gt=0, lt=1)
    """Fraction of a GPU's memory for the engine's own copy of the weights and its key/value cache."""
    tensor_parallel_size: int = Field(1, ge=1)
    """GPUs that hold one engine together; must divide the number of processes."""
    max_length: int = Field(0, ge=0)
    """Longest game in tokens; 0: a quarter more than the token budgets are expected to come to."""
    sleep: bool = False
    """Give the engine's memory back while the policy is trained; its weights are sent again for each step either
    way."""
