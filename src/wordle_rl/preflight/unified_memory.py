"""Unified memory of a Mac, which the GPU shares with everything else; a run that would swap is a problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from wordle_rl.config import ConfigError, RunConfig
from wordle_rl.policy.numbers import Device, ModelNumbers
from wordle_rl.preflight.findings import Finding
from wordle_rl.preflight.memory import MemoryEstimate, MemoryStage, estimate, stage_works
from wordle_rl.runs.provenance import main_memory_bytes

_GIB = 1024**3
_SMALL_MAC = 36 * _GIB


def unified_memory(gib: float | None = None) -> Device:
    """Return the part of a Mac's memory that its GPU can use: two thirds up to 36 GiB, three quarters above.

    Args:
        gib: Memory of the machine in GiB. None: that of this machine.

    Raises:
        ConfigError: If it is not above 0.
    """
    if gib is not None and gib <= 0:
        raise ConfigError(f"--memory-gib {gib:g} is not above 0; give the memory of the machine, such as 16")
    total = main_memory_bytes() if gib is None else round(gib * _GIB)
    if total is None:
        return Device("unified memory", None)
    usable = total * 2 // 3 if total <= _SMALL_MAC else total * 3 // 4
    return Device(f"unified memory of {total / _GIB:.0f} GiB, of which the GPU", usable)


def unified_works(
    config: RunConfig, numbers: ModelNumbers, teacher_length: int | None, game_length: int | None, num_secrets: int
) -> dict[MemoryStage, MemoryEstimate]:
    """Estimate the memory of each stage on MLX; unknown lengths count as the longest allowed."""
    # MLX computes in the type of the weights, keeps the attention table for the backward pass, and computes the logits
    # of 512 tokens at a time. While a turn is drawn, the cache of a game exists twice: its own, and a row of the batch.
    longest = min(config.model.max_length, numbers.context or config.model.max_length)
    works = stage_works(
        config,
        teacher_length=teacher_length or longest,
        game_length=min(game_length or longest, numbers.context or game_length or longest),
        num_secrets=num_secrets,
        bf16={"sft": numbers.weight_bytes == 2, config.algorithm: numbers.weight_bytes == 2},
        eager_attention=True,
        tiled_sft=True,
    )
    found = {}
    for stage, work in works.items():
        found[stage] = estimate(numbers, replace(work, tiled_logits=True, cached_games=2 * work.cached_games))
    return found


def check_unified(memory: Mapping[MemoryStage, MemoryEstimate], device: Device) -> list[Finding]:
    """Report stages that need more memory than the GPU can use: a Mac would swap, and a step would take hours."""
    if device.num_bytes is None:
        return []
    fix = (
        "lower rl.group_size, grpo.groups_per_step, model.micro_batch_size, sft.batch_size or max_completion_tokens, "
        'set model.gradient_checkpointing, model.lora.rank with model.dtype "bfloat16", or '
        "model.load_in_4bit"
    )
    return [
        Finding(
            "problem",
            f"{stage} may need {needed.total / _GIB:.1f} GiB, but {device.name} has {device.num_bytes / _GIB:.1f}, so "
            f"it would swap; {fix}",
        )
        for stage, needed in memory.items()
        if needed.total > device.num_bytes
    ]
