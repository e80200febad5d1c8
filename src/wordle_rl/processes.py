"""Several processes, one run: how many, who writes, and how the others wait.

Processes are started by `torchrun` or `accelerate launch`, which say in the environment how many there are. The first
one does what is done once (teacher games, evaluation, files) while the others wait for it; training is done together.
"""

from __future__ import annotations

import os
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
