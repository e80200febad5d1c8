"""Check that each stage of a training fits into the memory of the device."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from wordle_rl.config import ModelSettings, RunConfig
from wordle_rl.policy.numbers import Device, ModelNumbers
from wordle_rl.preflight.findings import Finding
from wordle_rl.preflight.memory import MemoryEstimate, MemoryStage, estimate, stage_works
from wordle_rl.preflight.unified_memory import check_unified, unified_memory, unified_works
from wordle_rl.runs.distributed import Sharding, sharding
from wordle_rl.runs.progress import in_percent

_GIB = 1024**3


_LESS: Mapping[MemoryStage, str] = {
    "sft": "lower sft.batch_size or set model.gradient_checkpointing",
    "grpo": "lower model.micro_batch_size, grpo.groups_per_step or rl.group_size, or set model.gradient_checkpointing",
    "expert_iteration": "lower rl.batch_size, rl.groups_per_round or rl.group_size, "
    "or set model.gradient_checkpointing",
    "dpo": "lower rl.batch_size, rl.groups_per_round or rl.group_size, or set model.gradient_checkpointing",
    "distill": "lower rl.batch_size, rl.groups_per_round or rl.group_size, or set model.gradient_checkpointing",
    "eval": "lower max_batch_size",
}


_TRAINED = "weights, gradients and optimizer"
_COUNTED: Mapping[MemoryStage, str] = {
    "sft": _TRAINED,
    "grpo": _TRAINED,
    "expert_iteration": _TRAINED,
    "dpo": "weights, reference weights, gradients and optimizer",
    "distill": _TRAINED,
    "eval": "weights",
}
_MUCH_LESS = 'set model.lora.rank and model.dtype "bfloat16", or choose a smaller model or a larger device'
_SHARD = "; it fits on the devices here together if you shard it, as scripts/launch/fsdp2.yaml does"
_UNSHARDED = Sharding()


def check_memory(
    memory: Mapping[MemoryStage, MemoryEstimate],
    device: Device,
    engine_share: float = 0.0,
    sharding: Sharding = _UNSHARDED,
    *,
    rough_refuses: bool = True,
) -> list[Finding]:
    """Check that each stage fits the device: the exactly counted parts must fit, the rough total should.

    Args:
        memory: Memory that each stage needs.
        device: The device of each process.
        engine_share: Fraction of the device that a vLLM engine takes beside GRPO; 0: none.
        sharding: How the launch spreads a model over devices; an evaluation holds all of it on one.
        rough_refuses: Whether a rough estimate can be a problem; False if lengths are unknown.
    """
    findings: list[Finding] = []
    if device.num_bytes is None:
        return findings
    for stage, needed in memory.items():
        share = engine_share if stage == "grpo" else 0.0
        room = device.num_bytes * (1 - share)
        taken = f", {in_percent(share, 0)}% of it vLLM's" if share else ""
        available = f"{device.name} has {device.num_bytes / _GIB:.1f} GiB{taken}"
        spread = _UNSHARDED if stage == "eval" else sharding
        least = needed.counted_on_each(spread)
        if least > room and not spread.offloaded:
            message = f"{stage} needs {least / _GIB:.1f} GiB just for {_COUNTED[stage]}, but {available}; {_MUCH_LESS}"
            if spread == _UNSHARDED and stage != "eval" and least <= room * device.count:
                message += _SHARD
            findings.append(Finding("problem", message))
        elif needed.total > room:
            # The rough part can be twice too high. If even half of it does not fit, the system would kill the run.
            hopeless = rough_refuses and not spread.offloaded and least + (needed.total - needed.counted) / 2 > room
            message = f"{stage} may need about {needed.total / _GIB:.1f} GiB, but {available}; {_LESS[stage]}"
            findings.append(Finding("problem" if hopeless else "warning", message))
        if share:
            findings += _check_share(needed, share, device.num_bytes)
    return findings


def _check_share(needed: MemoryEstimate, share: float, num_bytes: int) -> list[Finding]:
    weights = needed.engine_weights
    if weights < num_bytes * share:
        return []
    message = (
        f"grpo.gpu_memory_utilization {share} gives vLLM {num_bytes * share / _GIB:.1f} GiB, but its copy of the "
        f"weights needs {weights / _GIB:.1f}; raise it, or let a vLLM server play (grpo.engine)"
    )
    return [Finding("problem", message)]


def check_room(
    config: RunConfig,
    model: ModelSettings,
    stages: Collection[str],
    teacher_length: int | None = None,
    game_length: int | None = None,
) -> list[Finding]:
    """Check that stages fit into memory, from the model's config.json alone; nothing is loaded or played.

    If a length is unknown, only what must fit in any case is checked.

    Args:
        config: All settings.
        model: The model that the stages begin with.
        stages: `sft`, the name of the algorithm, `eval`; others are ignored.
        teacher_length: Tokens of the longest teacher game. None: unknown.
        game_length: Tokens of the longest game that the model can play. None: unknown.
    """
    from wordle_rl.policy.device import device_memory
    from wordle_rl.policy.loading import load_numbers

    if config.backend == "mlx":
        works = unified_works(config, load_numbers(model), None, None, num_secrets=1)
        return check_unified({stage: needed for stage, needed in works.items() if stage in stages}, unified_memory())
    memory = stage_memory(config, load_numbers(model), teacher_length, game_length, num_secrets=1)
    ahead: dict[MemoryStage, MemoryEstimate] = {stage: needed for stage, needed in memory.items() if stage in stages}
    if shares_memory(config):
        return check_unified(ahead, unified_memory())
    known = game_length is not None and (teacher_length is not None or "sft" not in stages)
    found = check_memory(ahead, device_memory(), engine_beside(config), sharding(), rough_refuses=known)
    return [finding for finding in found if known or finding.level == "problem"]


def shares_memory(config: RunConfig) -> bool:
    """True if the GPU shares the main memory of the machine: a Mac, with MLX or torch."""
    from wordle_rl.policy.device import device_kind

    return config.backend == "mlx" or device_kind() == "mps"


def engine_beside(config: RunConfig) -> float:
    """Return the fraction of the device that a vLLM engine takes beside the training; 0 if there is none."""
    return config.grpo.gpu_memory_utilization if config.grpo.engine == "vllm" else 0.0


def stage_memory(
    config: RunConfig, numbers: ModelNumbers, teacher_length: int | None, game_length: int | None, num_secrets: int
) -> dict[MemoryStage, MemoryEstimate]:
    """Estimate the memory of each stage; unknown lengths count as the longest allowed."""
    from wordle_rl.policy.loading import SMALL_VOCABULARY, attention_of
    from wordle_rl.train.optimizer import wants_bf16

    longest = min(config.model.max_length, numbers.context or config.model.max_length)
    works = stage_works(
        config,
        teacher_length=teacher_length or longest,
        game_length=min(game_length or longest, numbers.context or game_length or longest),
        num_secrets=num_secrets,
        bf16={
            "sft": wants_bf16(config.model.precision),
            config.algorithm: wants_bf16(config.model.precision),
        },
        eager_attention=attention_of(config.model) == "eager",
        tiled_sft=numbers.vocab_size > SMALL_VOCABULARY,
    )
    return {stage: estimate(numbers, work) for stage, work in works.items()}
