"""Start a program on two processes of the CPU, as torchrun does; and what such programs begin and end with."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from wordle_rl.config.run import RunConfig
from wordle_rl.runs import Run
from wordle_rl.runs.distributed import is_first, leave_process_group, process_index, wait_for_all
from wordle_rl.words import WordList
from wordle_rl.words.split import split_secrets


def torchrun(*arguments: object) -> subprocess.Popen:
    """Start two processes on the CPU."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(port)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.Popen(
        [*command, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )


def shared_run(out: Path, words: WordList) -> Run:
    """A run directory, which the first process makes and the others wait for."""
    if is_first() and not out.exists():
        Run.create(out, RunConfig(), split_secrets(words))
    wait_for_all()
    return Run(out)


def leave(out: Path, facts: Any, weights: Any = None) -> None:
    """Write what a process has to tell, and end it."""
    import torch

    rank = process_index()
    (out / f"rank{rank}.json").write_text(json.dumps(facts))
    if weights is not None:
        torch.save(weights, out / f"rank{rank}.pt")
    leave_process_group()
    # All is written. On a busy machine a thread of gloo may outlive the group and abort the interpreter at its end
    # ("terminate called without an active exception").
    sys.stdout.flush()
    os._exit(0)
