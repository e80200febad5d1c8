"""our command for verl on this machine: Ray nodes whose GPUs are places for a process, and the command in a process."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

SUPPORT = Path(__file__).parent
PROCESSOR = {"VERL_USE_EXTERNAL_MODULES": "verl_cpu", "VERL_PLATFORM": "cpu", "OMP_NUM_THREADS": "1"}
PATIENCE = {"RAY_worker_register_timeout_seconds": "600", "RAY_worker_niceness": "0"}
"""Ray's workers import torch and verl before they register, and stand behind every other process unless told not to."""
OVERRIDES = (
    "trainer.device=cpu",
    "actor_rollout_ref.actor.strategy=fsdp2",
    "critic.strategy=fsdp2",
    "actor_rollout_ref.model.use_remove_padding=false",
    "critic.model.use_remove_padding=false",
    "actor_rollout_ref.actor.use_torch_compile=false",
    "actor_rollout_ref.actor.fsdp_config.use_torch_compile=false",
    "data.dataloader_num_workers=0",
    "actor_rollout_ref.rollout.agent.num_workers=1",
    "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
)
"""Settings of verl for the platform of `verl_cpu`."""


@contextmanager
def ray_nodes(count: int) -> Iterator[str]:
    """Ray nodes on this machine, each with a place for one training process; the address of the first."""
    from ray.cluster_utils import Cluster

    kept = dict(os.environ)
    ours = environment()  # a node hands its own to every process that it starts
    os.environ.clear()
    os.environ.update(ours)
    node = {"num_cpus": 16, "num_gpus": 1, "object_store_memory": 200_000_000}
    nodes = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    try:
        for _ in range(count - 1):
            nodes.add_node(**node)
        os.environ.clear()
        os.environ.update(kept)
        yield nodes.address
    finally:
        nodes.shutdown()


def environment() -> Mapping[str, str]:
    """Variables of every process that is to find the platform; Ray itself writes which places a process sees."""
    path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(SUPPORT)])
    inherited = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    return {**inherited, **PROCESSOR, **PATIENCE, "PYTHONPATH": path}


def command(config: Path, run: Path, address: str, options: tuple[str, ...], overrides: tuple[str, ...]) -> list[str]:
    """The words of `python -m wordle_rl.trainers.verl` on such nodes.

    Args:
        config: The run's config file.
        run: Its directory.
        address: Of the nodes.
        options: Of the command.
        overrides: Of verl, after those of the platform.
    """
    words = (config, "--out", run, *options, "--overrides", *OVERRIDES)
    return [
        sys.executable,
        "-m",
        "wordle_rl.trainers.verl",
        *map(str, words),
        f"++ray_kwargs.ray_init.address={address}",
        *overrides,
    ]


def train(config: Path, run: Path, address: str, *overrides: str, options: tuple[str, ...]) -> None:
    """Carry out the command in a process of its own, to its end."""
    done = subprocess.run(
        command(config, run, address, options, overrides),
        env=environment(), capture_output=True, text=True, timeout=1500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
