"""Does each stage of a training have room on the device?"""

from __future__ import annotations

from collections.abc import Mapping

from wordle_rl.checks.findings import Finding
from wordle_rl.checks.memory import Device, MemoryEstimate, MemoryStage
from wordle_rl.config import VLLMSettings
from wordle_rl.percent import in_percent
from wordle_rl.processes import Sharding

_GIB = 1024**3


_LESS: Mapping[MemoryStage, str] = {
    "sft": "lower sft.batch_size or set sft.gradient_checkpointing",
    "grpo": "lower grpo.micro_batch_size, grpo.groups_per_step, grpo.group_size or grpo.replay_games, "
    "or set grpo.gradient_checkpointing",
    "expert_iteration": "lower expert_iteration.batch_size, expert_iteration.groups_per_round or "
    "expert_iteration.group_size, or set expert_iteration.gradient_checkpointing",
    "dpo": "lower dpo.batch_size, dpo.boards_per_round, dpo.groups_per_round or dpo.group_size, "
    "or set dpo.gradient_checkpointing",
    "dagger": "lower dagger.batch_size, dagger.groups_per_round or dagger.group_size, "
    "or set dagger.gradient_checkpointing",
    "eval": "lower eval.max_batch_size",
}


_TRAINED = "weights, gradients and optimizer"
_COUNTED: Mapping[MemoryStage, str] = {
    "sft": _TRAINED,
    "grpo": _TRAINED,
    "expert_iteration": _TRAINED,
    "dpo": "weights, those it started from beside them, gradients and optimizer",
    "dagger": _TRAINED,
    "eval": "weights",
}
_MUCH_LESS = 'set model.lora.rank, with it model.dtype "bfloat16", or choose a smaller model or a larger device'
_SHARD = "; the devices here hold it together if the launch shards it, as configs/accelerate/fsdp2.yaml does"
_UNSHARDED = Sharding()


def check_memory(
    memory: Mapping[MemoryStage, MemoryEstimate],
    device: Device,
    engine: VLLMSettings | None = None,
    sharding: Sharding = _UNSHARDED,
) -> list[Finding]:
    """Whether each stage has room: what is counted exactly must fit the device, the rough total should.

    Args:
        memory: What each stage takes.
        device: What there is, for each process.
        engine: Of the vLLM engine that shares the device with GRPO; None: there is none.
        sharding: What the launch spreads over several devices; an evaluation has all of the model on one.
    """
    findings: list[Finding] = []
    if device.num_bytes is None:
        return findings
    for stage, needed in memory.items():
        shared = engine is not None and stage == "grpo"
        share = engine.gpu_memory_share if engine is not None and shared and not engine.sleep else 0.0
        room = device.num_bytes * (1 - share)
        taken = f", {in_percent(share, 0)}% of it vLLM's" if share else ""
        told = f"{device.name} has {device.num_bytes / _GIB:.1f} GiB{taken}"
        spread = _UNSHARDED if stage == "eval" else sharding
        least = needed.counted_on_each(spread)
        if least > room and not spread.offloaded:
            message = f"{stage} takes {least / _GIB:.1f} GiB for {_COUNTED[stage]} alone, {told}; {_MUCH_LESS}" + (
                _SHARD if spread == _UNSHARDED and stage != "eval" and least <= room * device.count else ""
            )
            findings.append(Finding("problem", message))
        elif needed.total > room:
            message = f"{stage} may take about {needed.total / _GIB:.1f} GiB, {told}; {_LESS[stage]}"
            findings.append(Finding("warning", message))
        if engine is not None and shared:
            findings += _check_share(needed, engine, device.num_bytes)
    return findings


def _check_share(needed: MemoryEstimate, engine: VLLMSettings, num_bytes: int) -> list[Finding]:
    """Whether the engine's share of a GPU holds its part of the weights, in the 16 bits in which it keeps them."""
    weights = needed.engine_weights / engine.tensor_parallel_size
    if weights < num_bytes * engine.gpu_memory_share:
        return []
    share, room = engine.gpu_memory_share, num_bytes * engine.gpu_memory_share / _GIB
    message = (
        f"grpo.vllm.gpu_memory_share {share} leaves vLLM {room:.1f} GiB, its copy of the weights takes "
        f"{weights / _GIB:.1f}; raise it, or grpo.vllm.tensor_parallel_size"
    )
    return [Finding("problem", message)]
