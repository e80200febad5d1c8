"""Memory of a training, estimated from a model's numbers alone, and whether it fits the device. Nothing is loaded.

Weights, gradients, optimizer state and the key/value cache are counted exactly. Activations are a rule of thumb, right
within a factor of two. The surprise in multi-turn training is the cache: every token of every game keeps
`2 x layers x key/value heads x head size` numbers until the games end. For Qwen3-4B in bfloat16 that is 144 KiB per
token: 0.56 GiB for a game of 4,096 tokens, 9 GiB for a group of 16, 288 GiB for 32 groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from wordle_rl.config.base import ConfigError
from wordle_rl.config.run import RunConfig
from wordle_rl.config.stages import (
    DPOSettings,
    ExpertIterationSettings,
    GRPOSettings,
    RoundSettings,
    SFTSettings,
    StageSettings,
    kind_of,
)
from wordle_rl.policy.sizes import FEW_WEIGHTS, Device, ModelNumbers
from wordle_rl.preflight import Finding, problem, warning
from wordle_rl.prompt import Shape
from wordle_rl.runs.distributed import Sharding, sharding
from wordle_rl.runs.progress import in_percent
from wordle_rl.runs.provenance import main_memory_bytes

MemoryStage = str
"""A stage of the run, or `eval`."""

FOUR_BIT_BYTES = 0.5 + 1 / 64 + 4 / (64 * 256)
"""Bytes per 4-bit number: half a byte, one byte of scale per 64 numbers, and four more per 256 such scales.

Source: QLoRA, arXiv:2305.14314, section 3 (NF4, double quantization); a test compares bitsandbytes' own layers.
"""
_CPU_GAPS = 1.25
"""glibc leaves gaps between tensors of ever other sizes, and learning gives them back once a seventh has been added.
SmolLM2 took 7.0 GiB in SFT and 6.5 in a round of play, where 6.0 and 6.9 are foreseen."""
_TILE = 1024
_GIB = 1024**3
_SMALL_MAC = 36 * _GIB


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
        eager_attention: Plain attention, which stores a table of scores.
        tiled_logits: The loss computes the logits of a few positions at a time.
        engine: A vLLM engine plays, with a cache of its own.
        cache_dtype_bytes: Bytes per number of the cache; 0: as the weights.
        tokens: Tokens of a backward pass where rows share their beginnings; 0: all of all rows.
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
    cache_dtype_bytes: int = 0
    tokens: int = 0

    @property
    def computed(self) -> int:
        """Tokens that a backward pass computes."""
        return self.tokens or self.rows * self.length


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes by component. `cache_of_a_group` is part of `cache`; `activations` and `logits` are rough.

    `engine_weights` belong to a colocated vLLM engine, which has its own part of the memory; totals leave them out.
    `gaps` is what the allocator takes for a byte of a step or a cache.
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
    gaps: float = 1.0

    @property
    def counted(self) -> int:
        """Bytes that do not depend on the batch: weights, gradients and optimizer state."""
        return self.weights + self.reference + self.gradients + self.optimizer

    @property
    def total(self) -> int:
        """The most bytes at once: games are over, and their cache is freed, before they are learnt from."""
        return self.counted + round(self.gaps * max(self.activations + self.logits, self.cache))


def estimate(model: ModelNumbers, work: Work) -> MemoryEstimate:
    """Estimate the memory of a stage on a device, without sharding."""
    each = model.trainable_bytes or model.weight_bytes
    weights = model.num_whole * model.weight_bytes + round(model.num_four_bit * FOUR_BIT_BYTES)
    weights += model.num_trainable * (each - model.weight_bytes)
    trainable = model.num_trainable * each if work.rows else 0
    scored = min(work.computed, _TILE) if work.tiled_logits else work.computed
    # With adapters, the reference is a second set of adapters on the same base, unless the whole model is copied.
    whole = work.whole_reference or model.num_trainable == model.num_parameters
    # Autocast keeps a copy of the weights in the smaller type during a pass.
    autocasts = work.rows and work.compute_bytes < model.weight_bytes
    cached = replace(model, weight_bytes=work.cache_dtype_bytes or model.weight_bytes)
    return MemoryEstimate(
        weights=weights,
        reference=(weights if whole else trainable) if work.reference else 0,
        gradients=trainable,
        optimizer=trainable * work.optimizer_numbers,
        activations=_activation_bytes(model, work) + (model.num_whole * work.compute_bytes if autocasts else 0),
        logits=3 * scored * model.vocab_size * 4,  # float32: logits, log-probabilities and gradient
        cache_of_a_group=cache_bytes(cached, work.length, work.group_size),
        cache=cache_bytes(cached, work.length, work.cached_games),
        engine_weights=2 * model.num_parameters if work.engine else 0,
    )


def cache_bytes(model: ModelNumbers, length: int, games: int) -> int:
    """Return the bytes of the key/value cache of games: a key and a value per token, layer and key/value head.

    A sliding window saves nothing, since our sampler keeps every token in every layer. This is an upper bound for games
    that end early, for tokens that several games share, and for layers with heads of different sizes.

    Examples:
        >>> qwen3_4b = ModelNumbers(4_022_468_096, 4_022_468_096, 36, 32, 8, 128, 2560, 9728, 151_936, 2)
        >>> [round(cache_bytes(qwen3_4b, 4096, games) / 2**30, 2) for games in (1, 16, 512)]
        [0.56, 9.0, 288.0]
    """
    num_layers = model.num_layers - model.num_shared_layers
    per_token = 2 * num_layers * model.num_kv_heads * model.head_dim * model.weight_bytes
    return per_token * length * games


def _activation_bytes(model: ModelNumbers, work: Work) -> int:
    # A usual layer keeps input and output of both norms (float32), queries, keys and values before and after rotation,
    # the output of attention, and four times the width of the feed-forward part. Eager attention adds a table of
    # length x length per head, before and after the softmax.
    queries, keys = model.num_heads * model.head_dim, model.num_kv_heads * model.head_dim
    inside = 4 * 8 * model.hidden_size + work.compute_bytes * (4 * queries + 5 * keys + 4 * model.intermediate_size)
    if work.eager_attention:
        inside += (4 + work.compute_bytes) * model.num_heads * work.length
    per_token = inside * model.num_layers
    if work.checkpointing:  # the inputs of all layers, and the inside of one
        per_token = 4 * model.hidden_size * model.num_layers + inside
    # Rows that share their beginnings are laid out whole for attention: queries, keys, values, result and table.
    laid_out = 2 * queries + 2 * keys + 2 * model.num_heads * work.length if work.tokens else 0
    return work.computed * per_token + work.rows * work.length * work.compute_bytes * laid_out * model.num_layers


def memory_of_stages(
    config: RunConfig, numbers: ModelNumbers, teacher_length: int | None, game_length: int | None
) -> dict[MemoryStage, MemoryEstimate]:
    """Estimate the memory of each stage of a run. Unknown lengths, in tokens, count as the longest allowed."""
    from wordle_rl.policy.device import device_kind
    from wordle_rl.policy.loading import SMALL_VOCABULARY, attention_of
    from wordle_rl.train.optimizer import wants_bf16

    longest = min(config.model.max_length, numbers.context or config.model.max_length)
    teacher_length = teacher_length or longest
    game_length = min(game_length or longest, numbers.context or game_length or longest)
    if mlx := config.backend == "mlx":
        # MLX computes in the type of the weights, keeps the attention table for the backward pass, and computes the
        # logits of 512 tokens at a time.
        half, eager, tiled = numbers.weight_bytes == 2, True, True
    else:
        half, eager = wants_bf16(config.model.precision), attention_of(config.model) == "eager"
        tiled = numbers.vocab_size > SMALL_VOCABULARY
    works: dict[MemoryStage, Work] = {}
    # Training plays as it learns, under autocast; a small model on a CPU does not.
    smaller = half and not mlx and (device_kind() != "cpu" or numbers.num_parameters > FEW_WEIGHTS)
    shares = numbers.full_attention and not (mlx or config.model.gradient_checkpointing or config.model.compile)
    for stage in config.stages:
        own = config.settings_of(stage)
        if isinstance(own, SFTSettings):
            rows, _ = config.model.batches(own.batch_size)
            works[stage] = replace(_trained(config, own, rows, teacher_length, half), tiled_logits=tiled)
            continue
        work = _trained(config, own, 0, game_length, half)
        work = replace(work, cache_dtype_bytes=min(2, numbers.weight_bytes) * smaller)
        works[stage] = (
            _grpo_work(work, config, own, mlx)
            if isinstance(own, GRPOSettings)
            else _round_work(work, config, own, tiled, shares=shares)
        )
    if config.eval.engine != "vllm":  # vLLM checks its memory itself
        # An evaluation plays as many games at once as fit, at least one.
        works["eval"] = Work(rows=0, length=game_length, compute_bytes=4, cached_games=1)
    # While MLX draws a turn, the cache of a game exists twice: its own, and a row of the batch.
    copies = 2 if mlx else 1
    found = {
        stage: estimate(numbers, replace(work, eager_attention=eager, cached_games=copies * work.cached_games))
        for stage, work in works.items()
    }
    gaps = _CPU_GAPS if device_kind() == "cpu" and not mlx else 1.0
    return {stage: replace(needed, gaps=gaps) for stage, needed in found.items()}


def _trained(config: RunConfig, settings: StageSettings, rows: int, length: int, half: bool) -> Work:
    return Work(
        rows=rows,
        length=length,
        compute_bytes=2 if half else 4,
        optimizer_numbers=1 if settings.optimizer.muon_learning_rate is not None else 2,
        checkpointing=config.model.gradient_checkpointing,
    )


def _grpo_work(work: Work, config: RunConfig, grpo: GRPOSettings, tiled: bool) -> Work:
    games = grpo.groups_per_step * grpo.group_size
    row_per_turn = config.game.shape is Shape.STATE or grpo.turn_candidates > 1
    rows_per_game = config.game.rules.max_replies if row_per_turn else 1
    plays = not grpo.plays_by_vllm
    return replace(
        work,
        rows=min(config.model.micro_batch_size or games, games) * rows_per_game,
        cached_games=games if plays else 0,
        group_size=grpo.group_size if plays else 0,
        reference=grpo.beta > 0,
        tiled_logits=tiled,
        engine=grpo.engine == "vllm",
    )


def _round_work(work: Work, config: RunConfig, settings: RoundSettings, tiled: bool, *, shares: bool) -> Work:
    games, max_turns = settings.groups_per_round * settings.group_size, config.game.max_turns
    # Rows that stay together: the two replies of a pair, or a game and its labelled boards.
    if isinstance(settings, DPOSettings):
        together = 2
    elif isinstance(settings, ExpertIterationSettings) and settings.labels != "wins":
        together = max_turns
    else:
        together = 1
    rows = settings.batch_size * together
    micro = config.model.micro_batch_size
    rows = min(max(micro, together), rows) if micro else rows
    # A game of learning by play and its labels share the beginning, a pair only its prompt.
    reply = min(config.max_completion_tokens, work.length // max_turns)
    shared = -(-rows // together) * (work.length + (together - 1) * reply) if shares and together > 2 else 0
    work = replace(
        work, rows=rows, tokens=shared, cached_games=games, group_size=settings.group_size, tiled_logits=tiled
    )
    if not isinstance(settings, DPOSettings):
        return work
    return replace(
        work,
        cached_games=max(games, settings.boards_per_round * settings.guesses_per_board),
        tiled_logits=True,
        reference=True,
        whole_reference=True,
    )


def shares_memory(config: RunConfig) -> bool:
    """Return True if the GPU shares the main memory of the machine: a Mac, with MLX or torch."""
    from wordle_rl.policy.device import device_kind

    return config.backend == "mlx" or device_kind() == "mps"


def device_for(config: RunConfig, memory_gib: float | None = None) -> Device:
    """Return the device that a run trains on; `memory_gib` stands for the memory of another Mac."""
    from wordle_rl.policy.device import device_memory

    return unified_memory(memory_gib) if shares_memory(config) else device_memory()


def unified_memory(gib: float | None = None) -> Device:
    """Return the part of a Mac's memory that its GPU can use: two thirds up to 36 GiB, three quarters above."""
    if gib is not None and gib <= 0:
        raise ConfigError(f"--memory-gib {gib:g} is not above 0; give the memory of the machine, such as 16")
    total = main_memory_bytes() if gib is None else round(gib * _GIB)
    if total is None:
        return Device("unified memory", None)
    usable = total * 2 // 3 if total <= _SMALL_MAC else total * 3 // 4
    return Device(f"unified memory of {total / _GIB:.0f} GiB, of which the GPU", usable)


def _fewer_games(stage: MemoryStage) -> str:
    if stage == "eval":
        return "max_batch_size"
    if kind_of(stage) == "grpo":
        return f"{stage}.groups_per_step, {stage}.group_size or max_completion_tokens"
    return f"{stage}.groups_per_round or {stage}.group_size"


def _smaller_batches(stage: MemoryStage) -> str:
    if stage == "eval":
        return "max_batch_size"
    smaller = "model.micro_batch_size"
    return smaller if kind_of(stage) == "grpo" else f"{stage}.batch_size or {smaller}"


def check_memory(
    config: RunConfig,
    memory: Mapping[MemoryStage, MemoryEstimate],
    device: Device,
    spread: Sharding | None = None,
    *,
    lengths_known: bool = True,
) -> Iterator[Finding]:
    """Check that each stage fits the device of a process: the exactly counted parts must, the rough total should.

    `spread` is how the launch shards a model (None: as in the environment); an evaluation is never sharded. Without
    known lengths of games there is no rough total to check.
    """
    if device.num_bytes is None:
        return
    spread, unified = sharding() if spread is None else spread, shares_memory(config)
    for stage, needed in memory.items():
        colocated = [own for name, own in config.stages_of("grpo") if name == stage and own.engine == "vllm"]
        beside = colocated[0].gpu_memory_utilization if colocated else 0.0
        room = device.num_bytes * (1 - beside)
        taken = f", {in_percent(beside, 0)}% of it vLLM's" if beside else ""
        available = f"{device.name} has {device.num_bytes / _GIB:.1f} GiB{taken}"
        own = Sharding() if stage == "eval" else spread
        least = needed.counted // own.parts
        if least > room and not own.offloaded:
            parts = "weights" if stage == "eval" else "weights, gradients, optimizer and reference weights"
            message = (
                f"{stage} needs {least / _GIB:.1f} GiB just for {parts}, but {available}; set model.lora.rank and "
                'model.dtype "bfloat16", or choose a smaller model or a larger device'
            )
            if own == Sharding() and stage != "eval" and least <= room * device.count:
                message += "; it fits on the devices here together if you shard it, as scripts/launch/fsdp2.yaml does"
            yield problem(message)
        elif needed.total > room and lengths_known:
            # The rough part can be twice too high. If even half of it does not fit, the system would kill the run; a
            # Mac swaps before that, and a step takes hours.
            hopeless = not own.offloaded and least + (needed.total - needed.counted) / 2 > room
            if needed.cache > needed.activations + needed.logits:
                fix = f"lower {_fewer_games(stage)}, for the games' cache"
            else:
                fix = f"lower {_smaller_batches(stage)}"
                fix += "" if config.model.gradient_checkpointing else ", or set model.gradient_checkpointing"
            message = (
                f"{stage} may need about {needed.total / _GIB:.1f} GiB, but {available}"
                f"{', so it would swap' if unified else ''}; {fix}"
            )
            yield problem(message) if hopeless or unified else warning(message)
        if beside and needed.engine_weights >= device.num_bytes * beside:
            yield problem(
                f"{stage}.gpu_memory_utilization {beside} gives vLLM {device.num_bytes * beside / _GIB:.1f} GiB, but "
                f"its copy of the weights needs {needed.engine_weights / _GIB:.1f}; raise it, or let a vLLM server "
                f"play ({stage}.engine)"
            )
