"""What each stage of a run takes in memory on this machine, from its settings and its model's config.json."""

from __future__ import annotations

from collections.abc import Collection

from wordle_rl.checks.device import check_memory
from wordle_rl.checks.findings import Finding
from wordle_rl.checks.memory import MemoryEstimate, MemoryStage, ModelNumbers, estimate, stage_works
from wordle_rl.config import ModelSettings, RunConfig, VLLMSettings
from wordle_rl.processes import sharding


def check_room(config: RunConfig, model: ModelSettings, stages: Collection[str]) -> list[Finding]:
    """Whether these stages have room, from the model's config.json alone; nothing is loaded, no game is played.

    Args:
        config: Every setting.
        model: Where the stages begin: the base model, or what SFT made of it.
        stages: `sft`, the name of the algorithm, `eval`; others are not counted.
    """
    from wordle_rl.models.loading import device_memory, load_numbers

    memory = stage_memory(config, load_numbers(model), None, None, num_secrets=1)
    ahead: dict[MemoryStage, MemoryEstimate] = {stage: needed for stage, needed in memory.items() if stage in stages}
    return check_memory(ahead, device_memory(), engine_beside(config), sharding())


def engine_beside(config: RunConfig) -> VLLMSettings | None:
    """The settings of the vLLM engine that shares the device with the training; None if there is none."""
    return config.grpo.vllm if config.grpo.engine == "vllm" else None


def stage_memory(
    config: RunConfig, numbers: ModelNumbers, teacher_length: int | None, game_length: int | None, num_secrets: int
) -> dict[MemoryStage, MemoryEstimate]:
    """What each stage takes; lengths that are not known are taken to be the longest allowed."""
    from wordle_rl.models.loading import SMALL_VOCABULARY, attention_of
    from wordle_rl.training.optimizer import wants_bf16

    longest = min(config.sft.max_length, numbers.context or config.sft.max_length)
    works = stage_works(
        config,
        teacher_length=teacher_length or longest,
        game_length=min(game_length or longest, numbers.context or game_length or longest),
        num_secrets=num_secrets,
        bf16={
            "sft": wants_bf16(config.sft.precision),
            config.algorithm: wants_bf16(config.play_settings.precision),
        },
        eager_attention=attention_of(config.model) == "eager",
        tiled_sft=numbers.vocab_size > SMALL_VOCABULARY,
    )
    return {stage: estimate(numbers, work) for stage, work in works.items()}
