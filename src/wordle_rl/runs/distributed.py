"""Several processes, one run: ranks, barriers and sharding.

`torchrun` or `accelerate launch` starts the processes and sets their number in the environment. The first one does what
is done once (teacher games, evaluation, files) while the others wait. They train together.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from wordle_rl.config import ConfigError, GRPOSettings, RunConfig, SFTOptimizerSettings

T = TypeVar("T")

_LONGEST_WAIT = timedelta(hours=24)


def num_processes() -> int:
    """Return the number of processes."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def process_index() -> int:
    """Return the rank of this process, from 0."""
    return int(os.environ.get("RANK", "0"))


def is_first() -> bool:
    """True in the process that writes."""
    return process_index() == 0


def num_cores() -> int:
    """Return the number of cores that this process can use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Sharding:
    """How a launch spreads weights, gradients and optimizer over processes."""

    parts: int = 1
    """Number of processes to shard over; 1: each process holds everything."""
    offloaded: bool = False
    """Whether they are kept in main memory while they are not in use."""


def sharding() -> Sharding:
    """Read the sharding that `accelerate launch` sets in the environment."""
    if not _is_set("ACCELERATE_USE_FSDP"):
        return Sharding()
    return Sharding(num_processes(), offloaded=_is_set("FSDP_OFFLOAD_PARAMS"))


def check_processes(config: RunConfig, stages: Collection[str]) -> None:
    """Check that stages (`sft`, the name of the algorithm) can work with the processes that were launched."""
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
    """Check that there is only one process, for algorithms that train in one."""
    if num_processes() > 1:
        raise ConfigError(f"{name} trains in one process; launch one, or set algorithm to grpo")


def check_sharded(optimizer: SFTOptimizerSettings, section: str) -> None:
    """Check that an optimizer works on sharded weights; `section` is `sft` or `rl`."""
    if optimizer.muon_learning_rate is not None:
        raise ConfigError(
            f"{section}.optimizer.muon_learning_rate: Muon needs whole matrices, but the launch file shards them; "
            "leave out this setting"
        )


def check_sharded_play(settings: GRPOSettings, has_adapters: bool) -> None:
    """Check that GRPO works on sharded weights, without the whole model on every process."""
    sharded = "the launch file shards the model (FSDP): "
    if not settings.plays_by_vllm:
        raise ConfigError(
            f"{sharded}GRPO plays with the whole model on every process; use scripts/launch/ddp.yaml, "
            'with model.lora if memory is short, or set grpo.engine to "vllm"'
        )
    if has_adapters:
        raise ConfigError(f"{sharded}GRPO with adapters needs the whole model; use scripts/launch/ddp.yaml")
    if settings.validate_every_steps:
        raise ConfigError(f"{sharded}grpo.validate_every_steps stores the whole model; set it to 0")


def _is_set(name: str) -> bool:
    return os.environ.get(name, "").lower() in {"1", "true", "yes"}


def wait_for_all() -> None:
    """Wait until every process has called this."""
    if num_processes() == 1:
        return
    import torch
    from accelerate import PartialState

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        PartialState(cpu=not torch.cuda.is_available()).wait_for_everyone()
        return
    # The first process can play teacher games for hours, far longer than torch's default timeout.
    PartialState(cpu=not torch.cuda.is_available(), timeout=_LONGEST_WAIT).wait_for_everyone()


def gather(value: T) -> list[T]:
    """Return the values of all processes; every process must call this."""
    if num_processes() == 1:
        return [value]
    import torch

    found: list[T] = [value] * num_processes()
    torch.distributed.all_gather_object(found, value)
    return found


def leave_process_group() -> None:
    """Leave the process group once nothing more is done together."""
    if num_processes() == 1:
        return
    import torch

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
