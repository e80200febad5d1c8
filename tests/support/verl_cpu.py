"""A platform for verl without an accelerator: torch on the processor, gloo between processes, a server of transformers.

verl imports this module in each of its processes, where VERL_USE_EXTERNAL_MODULES names it, and takes the platform that
VERL_PLATFORM names. What Ray calls a GPU is then nothing but a place for a process: `ray.init(num_gpus=...)`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from verl.plugin.platform import PlatformBase, PlatformRegistry

for _name in ("empty_cache", "reset_peak_memory_stats"):
    setattr(torch.cpu, _name, lambda *_: None)  # verl calls them of any device
for _name in ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved"):
    setattr(torch.cpu, _name, lambda *_: 0)
torch.cpu.get_rng_state, torch.cpu.set_rng_state = torch.get_rng_state, torch.set_rng_state


@PlatformRegistry.register(platform="cpu")
class Processor(PlatformBase):
    """No accelerator at all."""

    device_name = "cpu"
    vendor_name = "none"
    device_module = torch.cpu

    def is_available(self) -> bool:
        return True

    def current_device(self) -> torch.device:
        return torch.device("cpu")  # a number would mean an accelerator

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        pass

    def synchronize(self, device_index: int | None = None) -> None:
        pass

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        pass

    def empty_cache(self) -> None:
        pass

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None:
        pass

    def profiler_stop(self) -> None:
        pass

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> None:
        return None


def register_engines() -> None:
    """Let verl's FSDP engines train on the processor, and a server of transformers stand in for vLLM."""
    from verl.utils import distributed

    # verl would name the processor twice, as main memory and as accelerator, which torch refuses.
    distributed.initialize_global_process_group_ray = partial(
        distributed.initialize_global_process_group_ray, backend="gloo"
    )
    from verl.workers.engine import EngineRegistry
    from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead, FSDPEngineWithValueHead
    from verl.workers.rollout import base
    from verl.workers.rollout.replica import RolloutReplicaRegistry

    for model_type, engine in (("language_model", FSDPEngineWithLMHead), ("value_model", FSDPEngineWithValueHead)):
        EngineRegistry.register(model_type, ["fsdp", "fsdp2"], device="cpu")(engine)
    base._ROLLOUT_REGISTRY["vllm", "async"] = "verl_cpu_server.WeightSender"
    RolloutReplicaRegistry.register("vllm", _load_replica)


def _load_replica() -> type:
    from verl_cpu_server import Replica

    return Replica


register_engines()
