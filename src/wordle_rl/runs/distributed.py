"""Several processes, one run: how many, who writes, and how the others wait.

Processes are started by `torchrun` or `accelerate launch`, which set their number in the environment. The first
one does what is done once (teacher games, evaluation, files) while the others wait for it; training is done together.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from wordle_rl.config import ConfigError, GRPOSettings, RunConfig, SFTOptimizerSettings

_LONGEST_WAIT = timedelta(hours=24)


def num_processes() -> int:
    """Number of processes of this run."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def process_index() -> int:
    """The number of this process among those of the run, from 0."""
    return int(os.environ.get("RANK", "0"))


def is_first() -> bool:
    """True if this process is the one that writes; a single process is."""
    return process_index() == 0


def num_cores() -> int:
    """Number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Sharding:
    """How a launch spreads weights, gradients and optimizer over processes.

    Attributes:
        parts: Processes over which they are sharded; 1: each process has all of them.
        offloaded: They lie in main memory while they are not computed with.
    """

    parts: int = 1
    offloaded: bool = False


def sharding() -> Sharding:
    """Sharding of this launch, as `accelerate launch` leaves it in the environment."""
    if not _is_set("ACCELERATE_USE_FSDP"):
        return Sharding()
    return Sharding(num_processes(), offloaded=_is_set("FSDP_OFFLOAD_PARAMS"))


def check_processes(config: RunConfig, stages: Collection[str]) -> None:
    """Refuse stages that cannot work on the processes that were launched, as far as the launch shows it.

    Args:
        config: Every setting.
        stages: `sft`, and the name of the algorithm; others are ignored.

    Raises:
        ConfigError: With the setting and its fix.
    """
    if _is_set("ACCELERATE_USE_DEEPSPEED"):
        raise ConfigError(
            "a launch under DeepSpeed is not supported; use scripts/launch/ddp.yaml, or fsdp2.yaml to shard"
        )
    sharded = _is_set("ACCELERATE_USE_FSDP")
    if "sft" in stages and sharded:
        check_sharded(config.sft.optimizer, "sft")
    if config.algorithm not in stages:
        return
    if config.algorithm != "grpo":
        check_alone(config.algorithm)
        return
    if sharded:
        check_sharded_play(config.grpo, config.model.lora.rank > 0)
        check_sharded(config.rl.optimizer, "rl")


def check_alone(name: str) -> None:
    """Refuse an algorithm that trains in one process where there are several.

    Raises:
        ConfigError: If there are.
    """
    if num_processes() > 1:
        raise ConfigError(f"{name} trains in one process; start one alone, or set algorithm to grpo")


def check_sharded(optimizer: SFTOptimizerSettings, section: str) -> None:
    """Refuse an optimizer that cannot work on weights that are sharded over processes.

    Args:
        optimizer: Optimizer and schedule.
        section: `sft` or `rl`, for the message.

    Raises:
        ConfigError: If it is Muon.
    """
    if optimizer.muon_learning_rate is not None:
        raise ConfigError(
            f"{section}.optimizer.muon_learning_rate: Muon needs whole matrices, but the launch file shards them; "
            "leave it out"
        )


def check_sharded_play(settings: GRPOSettings, has_adapters: bool) -> None:
    """Refuse GRPO that needs whole weights on each process where they are sharded over processes.

    Raises:
        ConfigError: If it does.
    """
    told = "the launch file shards the model (FSDP): "
    if not settings.plays_by_vllm:
        raise ConfigError(
            f"{told}GRPO plays with the whole model on every process; use scripts/launch/ddp.yaml, "
            'with model.lora if memory is short, or set grpo.engine to "vllm"'
        )
    if has_adapters:
        raise ConfigError(f"{told}GRPO with adapters wants the whole model; use scripts/launch/ddp.yaml")
    if settings.validate_every_steps:
        raise ConfigError(f"{told}grpo.validate_every_steps keeps the whole model of a step; set it to 0")


def _is_set(name: str) -> bool:
    return os.environ.get(name, "").lower() in {"1", "true", "yes"}


def wait_for_all() -> None:
    """Barrier: continue only when every process has come this far."""
    if num_processes() == 1:
        return
    import torch
    from accelerate import PartialState

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        PartialState(cpu=not torch.cuda.is_available()).wait_for_everyone()
        return
    # The first process may play teacher games for hours before the others have anything to do.
    PartialState(cpu=not torch.cuda.is_available(), timeout=_LONGEST_WAIT).wait_for_everyone()


def leave_process_group() -> None:
    """Leave the group of processes once nothing more is done together."""
    if num_processes() == 1:
        return
    import torch

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
