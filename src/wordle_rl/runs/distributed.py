"""Several processes, one run: ranks, barriers and sharding.

`torchrun` or `accelerate launch` starts the processes and sets their number in the environment. The first one does what
is done once (teacher games, evaluation, files) while the others wait. They train together.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from wordle_rl.config.base import ConfigError
from wordle_rl.config.refusals import ONE_PROCESS, Launch

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


def launch() -> Launch:
    """Read how the processes of this run were launched."""
    return Launch(
        num_processes(), sharded=_is_set("ACCELERATE_USE_FSDP"), deepspeed=_is_set("ACCELERATE_USE_DEEPSPEED")
    )


def check_alone(stage: str) -> None:
    """Check that there is only one process, for algorithms that train in one."""
    if num_processes() > 1:
        raise ConfigError(ONE_PROCESS.format(stage=stage))


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
