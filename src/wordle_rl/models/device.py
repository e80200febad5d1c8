"""Device of this process: a GPU of its own, the GPU of a Mac through Metal (MPS), or the processor.

Metal computes in float32 and float16, in bfloat16 from macOS 14 on, and knows no float64.
"""

from __future__ import annotations

import os
from typing import Literal

import torch

from wordle_rl.config import ConfigError
from wordle_rl.models.numbers import Device, main_memory_bytes
from wordle_rl.runs.distributed import num_processes

DeviceKind = Literal["cuda", "mps", "cpu"]
_BF16_MACOS = (14, 0)
"""First macOS whose Metal computes in bfloat16. Source: `is_bf16_available` of accelerate 1.15."""


def device_kind() -> DeviceKind:
    """Kind of the device of this process. Several processes on a Mac share no GPU: gloo joins processors alone."""
    if torch.cuda.is_available():
        return "cuda"
    if torch.backends.mps.is_available() and num_processes() == 1:
        return "mps"
    return "cpu"


def device_of_process() -> torch.device:
    """Device of this process."""
    kind = device_kind()
    return torch.device(kind, int(os.environ.get("LOCAL_RANK", "0"))) if kind == "cuda" else torch.device(kind)


def device_memory() -> Device:
    """Device that a model is trained on: the GPUs, else main memory, which the GPU of a Mac shares."""
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        return Device(properties.name, int(properties.total_memory), torch.cuda.device_count())
    return Device("main memory", main_memory_bytes())


def autocasts_to_bf16() -> bool:
    """True if this device computes products in bfloat16 and gains by it.

    False on a Mac, where float32 is as right and the oldest chips only emulate bfloat16: ask for it by name.
    """
    kind = device_kind()
    if kind == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    if kind == "mps":
        return False
    return _processor_has_bf16()


def _processor_has_bf16() -> bool:
    """True if the processor has the instructions, and oneDNN may use them.

    With ONEDNN_MAX_CPU_ISA set to an older processor it emulates bfloat16, a hundred times slower than float32.
    """
    has = torch.cpu.get_capabilities()
    present = has.get("avx512_bf16") or has.get("amx_bf16")
    return bool(present and torch.ops.mkldnn._is_mkldnn_bf16_supported())


def check_bf16(setting: str) -> None:
    """Refuse bfloat16 on a Mac whose system is too old for it.

    Args:
        setting: What asks for it, for the message.

    Raises:
        ConfigError: If it is.
    """
    if device_kind() == "mps" and not torch.backends.mps.is_macos_or_newer(*_BF16_MACOS):
        raise ConfigError(f"{setting} needs macOS {_BF16_MACOS[0]} or newer on the GPU of a Mac; use float32 (fp32)")
