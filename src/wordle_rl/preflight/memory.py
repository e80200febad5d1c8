"""Memory of a training, estimated from a model's numbers alone, and whether it fits the device. Nothing is loaded.

Weights, gradients, optimizer state and the key/value cache are counted exactly. Activations are a rule of thumb, right
within a factor of two. The surprise in multi-turn training is the cache: every token of every game keeps
`2 x layers x key/value heads x head size` numbers until the games end. For Qwen3-4B in bfloat16 that is 144 KiB per
token: 0.56 GiB for a game of 4,096 tokens, 9 GiB for a group of 16, 288 GiB for 32 groups.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from wordle_rl.config import (
    ConfigError,
    DPOTraining,
    GRPOTraining,
    ModelSettings,
    RLTraining,
    RoundTraining,
    RunConfig,
    SFTTraining,
)
from wordle_rl.policy.numbers import Device, ModelNumbers
from wordle_rl.preflight import Finding
from wordle_rl.prompt import Shape
from wordle_rl.runs.distributed import Sharding, sharding
from wordle_rl.runs.progress import in_percent
from wordle_rl.runs.provenance import main_memory_bytes

MemoryStage = Literal["sft", "grpo", "expert_iteration", "dpo", "distill", "eval"]

FOUR_BIT_BYTES = 0.5 + 1 / 64 + 4 / (64 * 256)
"""Bytes per 4-bit number: half a byte, one byte of scale per 64 numbers, and four more per 256 such scales.

Source: QLoRA, arXiv:2305.14314, section 3 (NF4, double quantization); a test compares bitsandbytes' own layers.
"""

_TILE = 1024


@dataclass(frozen=True, slots=True)
class Work:
    """Working set of one stage.

    Attributes:
        rows: Sequences that share a backward pass; 0: nothing is trained.
        length: Longest sequence or game in tokens.
        compute_bytes: Bytes per number in the training passes.
        optimizer_numbers: Numbers that the optimizer keeps per trainable parameter; 2 for AdamW.
        cached_games: Games in the key/value cache at a time.
        group_size: Games per secret.
        reference: Keep a frozen copy of the trainable weights.
        whole_reference: Keep a frozen copy of the whole model.
        checkpointing: Gradient checkpointing.
        eager_attention: Plain attention, which stores a table of scores.
        tiled_logits: The loss computes the logits of a few positions at a time.
        engine: A vLLM engine plays, with a cache of its own.
    """

    rows: int
    length: int
    compute_bytes: int
    optimizer_numbers: int = 2
    cached_games: int = 0
    group_size: int = 0
    reference: bool = False
    whole_reference: bool = False
    checkpointing: bool = False
    eager_attention: bool = False
    tiled_logits: bool = False
    engine: bool = False


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes by component. `cache_of_a_group` is part of `cache`; `activations` and `logits` are rough.

    `engine_weights` belong to a colocated vLLM engine, which has its own part of the memory; totals leave them out.
    """

    weights: int
    reference: int
    gradients: int
    optimizer: int
    activations: int
    logits: int
    cache_of_a_group: int
    cache: int
    engine_weights: int = 0

    @property
    def counted(self) -> int:
        """Bytes that do not depend on the batch: weights, gradients and optimizer state."""
        return self.weights + self.reference + self.gradients + self.optimizer

    def counted_on_each(self, sharding: Sharding) -> int:
        """Return the part of `counted` on each device."""
        return self.counted // sharding.parts

    @property
    def total(self) -> int:
        """All bytes at once, since the cache of the last games can still be there when training begins."""
        return self.counted + self.activations + self.logits + self.cache


def estimate(model: ModelNumbers, work: Work) -> MemoryEstimate:
    """Estimate the memory of a stage on a device, without sharding."""
    each = model.trainable_bytes or model.weight_bytes
    weights = model.num_whole * model.weight_bytes + round(model.num_four_bit * FOUR_BIT_BYTES)
    weights += model.num_trainable * (each - model.weight_bytes)
    trainable = model.num_trainable * each if work.rows else 0
    scored = min(work.rows * work.length, _TILE) if work.tiled_logits else work.rows * work.length
    # With adapters, the reference is a second set of adapters on the same base, unless the whole model is copied.
    whole = work.whole_reference or model.num_trainable == model.num_parameters
    return MemoryEstimate(
        weights=weights,
        reference=(weights if whole else trainable) if work.reference else 0,
        gradients=trainable,
        optimizer=trainable * work.optimizer_numbers,
        activations=activation_bytes(model, work) + _working_copy(model, work),
        logits=3 * scored * model.vocab_size * 4,  # float32: logits, log-probabilities and gradient
        cache_of_a_group=cache_bytes(model, work.length, work.group_size),
        cache=cache_bytes(model, work.length, work.cached_games),
        engine_weights=2 * model.num_parameters if work.engine else 0,
    )


def stage_works(
    config: RunConfig,
    *,
    teacher_length: int,
    game_length: int,
    num_secrets: int,
    bf16: Mapping[MemoryStage, bool],
    eager_attention: bool,
    tiled_sft: bool,
) -> dict[MemoryStage, Work]:
    """Return the working set of each stage of a run.

    Args:
        config: All settings.
        teacher_length: Tokens of the longest teacher game.
        game_length: Tokens of the longest game that a policy can play.
        num_secrets: Games of an evaluation.
        bf16: Whether a stage trains under bfloat16 autocast, for SFT and the chosen algorithm.
        eager_attention: See `Work`.
        tiled_sft: `tiled_logits` of SFT.
    """
    sft, play = config.sft_training, config.training
    works: dict[MemoryStage, Work] = {
        "sft": replace(_trained(sft, sft.batches[0], teacher_length, bf16["sft"]), tiled_logits=tiled_sft)
    }
    if isinstance(play, GRPOTraining):
        works["grpo"] = _grpo_work(config, play, game_length, bf16["grpo"])
    else:
        works[config.algorithm] = _round_work(play, game_length, bf16[config.algorithm], tiled_sft)
    works = {stage: work for stage, work in works.items() if stage in config.trained}
    # An evaluation plays as many games at once as fit, at least one.
    works["eval"] = Work(rows=0, length=game_length, compute_bytes=4, cached_games=min(1, num_secrets))
    return {stage: replace(work, eager_attention=eager_attention) for stage, work in works.items()}


def _trained(settings: SFTTraining | RLTraining, rows: int, length: int, half: bool) -> Work:
    return Work(
        rows=rows,
        length=length,
        compute_bytes=2 if half else 4,
        optimizer_numbers=1 if settings.optimizer.muon_learning_rate is not None else 2,
        checkpointing=settings.gradient_checkpointing,
    )


def _grpo_work(config: RunConfig, grpo: GRPOTraining, length: int, half: bool) -> Work:
    games = grpo.groups_per_step * grpo.group_size
    micro = min(grpo.micro_batch_size or games, games)
    row_per_turn = config.game.shape is Shape.STATE or grpo.turn_candidates > 1
    rows_per_game = config.game.rules.max_replies if row_per_turn else 1
    plays = not grpo.plays_by_vllm
    return replace(
        _trained(grpo, micro * rows_per_game, length, half),
        cached_games=games if plays else 0,
        group_size=grpo.group_size if plays else 0,
        reference=grpo.beta > 0,
        engine=grpo.engine == "vllm",
    )


def _round_work(settings: RoundTraining, length: int, half: bool, tiled: bool) -> Work:
    games = settings.groups_per_round * settings.group_size
    micro = min(settings.micro_batch_size or settings.batch_size, settings.batch_size)
    work = replace(
        _trained(settings, micro, length, half),
        cached_games=games,
        group_size=settings.group_size,
        tiled_logits=tiled,
    )
    if not isinstance(settings, DPOTraining):
        return work
    sampled = 0 if settings.judge == "outcome" else settings.boards_per_round * settings.guesses_per_board
    return replace(
        work,
        rows=2 * micro,  # a pair is two replies
        cached_games=max(games, sampled),
        tiled_logits=True,
        reference=True,
        whole_reference=True,
    )


def cache_bytes(model: ModelNumbers, length: int, games: int) -> int:
    """Return the bytes of the key/value cache of games: a key and a value per token, layer and key/value head.

    A sliding window saves nothing, since our sampler keeps every token in every layer. This is an upper bound for games
    that end early, for tokens that several games share, and for layers with heads of different sizes. Spare room for
    the next tokens is not counted.

    Examples:
        >>> qwen3_4b = ModelNumbers(4_022_468_096, 4_022_468_096, 36, 32, 8, 128, 2560, 9728, 151_936, 2)
        >>> [round(cache_bytes(qwen3_4b, 4096, games) / 2**30, 2) for games in (1, 16, 512)]
        [0.56, 9.0, 288.0]
    """
    num_layers = model.num_layers - model.num_shared_layers
    per_token = 2 * num_layers * model.num_kv_heads * model.head_dim * model.weight_bytes
    return per_token * length * games


def activation_bytes(model: ModelNumbers, work: Work) -> int:
    """Return the bytes of activations kept for the backward pass.

    With checkpointing these are the inputs of all layers and the inside of one.
    """
    # A usual layer keeps input and output of both norms (float32), queries, keys and values before and after rotation,
    # the output of attention, and four times the width of the feed-forward part. Eager attention adds a table of
    # length x length per head, before and after the softmax.
    queries, keys = model.num_heads * model.head_dim, model.num_kv_heads * model.head_dim
    inside = 4 * 8 * model.hidden_size + work.compute_bytes * (4 * queries + 5 * keys + 4 * model.intermediate_size)
    if work.eager_attention:
        inside += (4 + work.compute_bytes) * model.num_heads * work.length
    per_token = inside * model.num_layers
    if work.checkpointing:
        per_token = 4 * model.hidden_size * model.num_layers + inside
    return work.rows * work.length * per_token


def _working_copy(model: ModelNumbers, work: Work) -> int:
    # Autocast keeps a copy of the weights in the smaller type during a pass.
    return model.num_whole * work.compute_bytes if work.rows and work.compute_bytes < model.weight_bytes else 0


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
