"""Settings of verl that a run's config has no place for: machines, the rollout server, lengths, how often to look."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from wordle_rl.config import Section


class VerlSettings(Section):
    """verl on Ray."""

    nodes: int = Field(1, ge=1)
    """Machines. Above 1, Ray must run on all of them: see scripts/verl/nodes.sh."""
    gpus_per_node: int = Field(1, ge=1)
    """GPUs of each machine."""
    estimator: Literal["grpo", "ppo"] = "grpo"
    """`grpo`: advantages by grpo.credit; `ppo`: generalized advantage estimation with a critic of the same model."""
    critic_learning_rate: float = Field(1e-5, gt=0)
    """Learning rate of the critic, with estimator ppo."""
    epochs: int = Field(0, ge=0)
    """Passes over the training secrets; 0: as many steps as grpo.steps says."""
    mini_batch_size: int = Field(0, ge=0)
    """Secrets per optimizer step; 0: all of grpo.groups_per_step, so that games are trained on by the weights that
    played them."""
    max_prompt_tokens: int = Field(1024, ge=1)
    """Longest opening prompt. Longer ones are left out, which leaves no training secret, so it must fit."""
    max_response_tokens: int = Field(3072, ge=1)
    """Longest game after its opening prompt, feedback included. A game that may exceed it is truncated."""
    rollout: Literal["vllm", "sglang"] = "vllm"
    """Server that plays."""
    tensor_parallel: int = Field(1, ge=1)
    """GPUs that hold one server together."""
    memory_fraction: float = Field(0.5, gt=0, lt=1)
    """Fraction of a GPU's memory for the server's weights and key/value cache."""
    offload: bool = False
    """Keep parameters and optimizer states in main memory while games are played."""
    validate_every_steps: int = Field(20, ge=0)
    """Play all validation secrets greedily before the first step and every this many steps; 0: never."""
    val_batch_size: int = Field(256, ge=0)
    """Validation secrets at once; 0: all of them. Every secret is played either way."""
    tool: bool = False
    """Guess by calling a tool instead of by tags, for models trained to call tools."""
    workers: int = Field(8, ge=1)
    """Processes that play games and ask the server."""
    overrides: tuple[str, ...] = ()
    """Further settings of verl, as Hydra overrides such as `trainer.project_name=wordle`; they count last."""
