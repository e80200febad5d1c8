"""Several processes, one run: how many, who writes, and how the others wait.

Processes are started by `torchrun` or `accelerate launch`, which say in the environment how many there are. The first
one does what is done once (teacher games, evaluation, files) while the others wait for it; training is done together.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta

_LONGEST_WAIT = timedelta(hours=24)


def num_processes() -> int:
    """How many processes work on this run together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first() -> bool:
    """Whether this process is the one that writes; a process of its own is."""
    return int(os.environ.get("RANK", "0")) == 0


def num_cores() -> int:
    """How many of the machine's cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Sharding:
    """Over how many processes a launch spreads what a training holds; 1: each process has all of it.

    `offloaded`: some of it may lie in main memory instead, so that nobody can say what a GPU must hold.
    """

    weights: int = 1
    gradients: int = 1
    optimizer: int = 1
    offloaded: bool = False


def sharding() -> Sharding:
    """What the launch of this process says, as `accelerate launch` leaves it in the environment.

    Where it leaves something open, the most that it may mean is taken.
    """
    count = num_processes()
    if _is_set("ACCELERATE_USE_FSDP"):
        return Sharding(count, count, count, offloaded=_is_set("FSDP_OFFLOAD_PARAMS"))
    if not _is_set("ACCELERATE_USE_DEEPSPEED"):
        return Sharding()
    stage = os.environ.get("ACCELERATE_DEEPSPEED_ZERO_STAGE", "")
    if not stage.isdecimal() or "ACCELERATE_DEEPSPEED_CONFIG_FILE" in os.environ:  # a file of DeepSpeed's own decides
        return Sharding(count, count, count, offloaded=True)
    places = (os.environ.get(f"ACCELERATE_DEEPSPEED_OFFLOAD_{part}_DEVICE", "none") for part in ("OPTIMIZER", "PARAM"))
    weights, gradients, optimizer = (count if int(stage) >= least else 1 for least in (3, 2, 1))
    return Sharding(weights, gradients, optimizer, offloaded=any(place != "none" for place in places))


def _is_set(name: str) -> bool:
    return os.environ.get(name, "").lower() in {"1", "true", "yes"}


def wait_for_all() -> None:
    """Go on only when every process has come this far."""
    if num_processes() == 1:
        return
    import torch
    from accelerate import PartialState

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        PartialState(cpu=not torch.cuda.is_available()).wait_for_everyone()
        return
    # The first process may play teacher games for hours before the others have anything to do.
    PartialState(cpu=not torch.cuda.is_available(), timeout=_LONGEST_WAIT).wait_for_everyone()


def part_company() -> None:
    """Leave the other processes, at the end of what is done together."""
    if num_processes() == 1:
        return
    import torch

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
