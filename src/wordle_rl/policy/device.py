"""Device of this process: a CUDA GPU, the GPU of a Mac through Metal (MPS), or the CPU.

Metal computes in float32 and float16, from macOS 14 also in bfloat16, and has no float64.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Literal

import torch

from wordle_rl.config.base import ConfigError
from wordle_rl.policy.sizes import Device
from wordle_rl.runs.distributed import num_processes
from wordle_rl.runs.provenance import main_memory_bytes

# Large tensors of a CPU lie on pages of 2 MiB where the system has them (/sys/kernel/mm/transparent_hugepage/enabled).
# glibc unmaps large blocks when they are freed, and the kernel zeroes their pages at the next allocation: page by page
# of 4 KiB, that is a sixth of the time of SmolLM2's play. torch reads the variable once, at the first tensor of the
# process, which may be made before a model is loaded; hence at import.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

DeviceKind = Literal["cuda", "mps", "cpu"]
_BF16_MACOS = (14, 0)
"""First macOS whose Metal has bfloat16. Source: `is_bf16_available` of accelerate 1.15."""


def device_kind() -> DeviceKind:
    """Return the kind of device. Several processes on a Mac use the CPU, since gloo cannot join them on the GPU."""
    if torch.cuda.is_available():
        return "cuda"
    if torch.backends.mps.is_available() and num_processes() == 1:
        return "mps"
    return "cpu"


def device_of_process() -> torch.device:
    """Return the torch device of this process."""
    kind = device_kind()
    return torch.device(kind, int(os.environ.get("LOCAL_RANK", "0"))) if kind == "cuda" else torch.device(kind)


def device_memory() -> Device:
    """Return the device for training: the GPUs, else main memory, which the GPU of a Mac shares."""
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        return Device(properties.name, int(properties.total_memory), torch.cuda.device_count())
    return Device("main memory", main_memory_bytes())


def autocasts_to_bf16() -> bool:
    """Return True if bfloat16 products are faster on this device.

    False on a Mac, where float32 is as fast and the oldest chips only emulate bfloat16. Ask for it by name there.
    """
    kind = device_kind()
    if kind == "cuda":
        # By default torch counts emulation, as on a T4, as support.
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if kind == "mps":
        return False
    # The CPU must have the instructions, and oneDNN must be allowed to use them: with ONEDNN_MAX_CPU_ISA set to an
    # older CPU it emulates bfloat16, a hundred times slower than float32.
    has = torch.cpu.get_capabilities()
    present = has.get("avx512_bf16") or has.get("amx_bf16")
    return bool(present and torch.ops.mkldnn._is_mkldnn_bf16_supported())


def check_bf16(setting: str) -> None:
    """Check that a Mac's system is new enough for bfloat16, which `setting` asks for."""
    if device_kind() == "mps" and not torch.backends.mps.is_macos_or_newer(*_BF16_MACOS):
        raise ConfigError(f"{setting} needs macOS {_BF16_MACOS[0]} or newer on the GPU of a Mac; use float32 (fp32)")


def release_memory() -> None:
    """Return freed memory to the system, as between playing and learning.

    Tensor sizes differ from step to step, so glibc's heap fragments: by about a gibibyte per round of SmolLM2.
    """
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    elif sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "malloc_trim"):
        library.malloc_trim(0)
