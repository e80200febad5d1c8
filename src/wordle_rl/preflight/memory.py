"""Memory of a training, forecast from a model's numbers alone, and whether it fits the device. Nothing is loaded.

    weights and what trains them     counted exactly: gradients, optimizer state, reference weights
    the larger of two, times a measured factor:
        the cache of the games       counted exactly; games are over before they are learnt from
        a backward pass              activations and logits, a rule of thumb, right within a factor of two

The surprise in multi-turn training is the cache: every token of every game keeps `2 x layers x key/value heads x head
size` numbers until the games end. For Qwen3-4B in bfloat16 that is 144 KiB per token: 0.56 GiB for a game of 4,096
tokens, 9 GiB for a group of 16, 288 GiB for 32 groups.
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
    kind_of,
)
from wordle_rl.policy.sizes import FEW_WEIGHTS, Device, ModelNumbers
from wordle_rl.preflight import Finding, problem, warning
from wordle_rl.prompt import Shape
from wordle_rl.runs.distributed import Sharding, sharding
from wordle_rl.runs.progress import in_percent
from wordle_rl.runs.provenance import main_memory_bytes

FOUR_BIT_BYTES = 0.5 + 1 / 64 + 4 / (64 * 256)
"""Bytes per 4-bit number: half a byte, one byte of scale per 64 numbers, and four more per 256 such scales.

Source: QLoRA, arXiv:2305.14314, section 3 (NF4, double quantization); a test compares bitsandbytes' own layers.
"""
_ON_A_CPU = 1.25
"""Measured factor for a CPU, whose heap fragments as tensors differ in size from step to step. SmolLM2 took 7.0 GiB
in SFT and 6.5 in a round of play; the forecasts are 6.2 and 7.1."""
_MLX_PIECE = 512
"""Tokens whose logits MLX holds at once."""
_GIB = 1024**3
_SMALL_MAC = 36 * _GIB


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes of a stage.

    Attributes:
        weights: The model as it is loaded.
        training: Gradients, optimizer state and reference weights.
        step: What a backward pass keeps. Rough.
        cache: Keys and values of the games in play.
        engine_weights: Weights of a colocated vLLM engine, which has its own part of the memory; totals leave them out.
        factor: Bytes that the allocator takes for a byte of a step or a cache.
    """

    weights: int
    training: int = 0
    step: int = 0
    cache: int = 0
    engine_weights: int = 0
    factor: float = 1.0

    @property
    def counted(self) -> int:
        """Bytes that do not depend on the batch."""
        return self.weights + self.training

    @property
    def total(self) -> int:
        """The most bytes at once: games are over, and their cache is freed, before they are learnt from."""
        return self.counted + round(self.factor * max(self.step, self.cache))


def weight_bytes(model: ModelNumbers) -> int:
    """Return the bytes of a loaded model."""
    whole = model.num_whole * model.weight_bytes + round(model.num_four_bit * FOUR_BIT_BYTES)
    return whole + model.num_trainable * (_trained_bytes(model) - model.weight_bytes)


def training_bytes(model: ModelNumbers, *, muon: bool = False, reference: bool = False) -> int:
    """Return the bytes that training adds: gradients, two numbers of AdamW per parameter (one of Muon), a reference.

    With adapters, the reference is a second set of adapters on the same base.
    """
    return model.num_trainable * _trained_bytes(model) * (1 + (1 if muon else 2) + reference)


def _trained_bytes(model: ModelNumbers) -> int:
    return model.trainable_bytes or model.weight_bytes


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


@dataclass(frozen=True, slots=True)
class Passes:
    """How the passes of a training compute, which decides what each token of a backward pass keeps.

    Attributes:
        number_bytes: Bytes per number.
        eager: Plain attention, which stores a table of scores.
        piece: Tokens whose logits the loss holds at once; None: those of all.
    """

    number_bytes: int
    eager: bool = False
    checkpointing: bool = False
    piece: int | None = None

    def step_bytes(self, model: ModelNumbers, rows: int, length: int, shared: int = 0) -> int:
        """Return what a backward pass over rows keeps; `shared` counts its tokens if rows share their beginnings."""
        tokens = shared or rows * length
        # A usual layer keeps input and output of both norms (float32), queries, keys and values before and after
        # rotation, the output of attention, and four times the width of the feed-forward part. Eager attention adds a
        # table of length x length per head, before and after the softmax.
        queries, keys = model.num_heads * model.head_dim, model.num_kv_heads * model.head_dim
        layer = 4 * 8 * model.hidden_size + self.number_bytes * (4 * queries + 5 * keys + 4 * model.intermediate_size)
        if self.eager:
            layer += (4 + self.number_bytes) * model.num_heads * length
        kept = tokens * layer * model.num_layers
        if self.checkpointing:  # the inputs of all layers, and the inside of one
            kept = tokens * (4 * model.hidden_size * model.num_layers + layer)
        if shared:  # rows are laid out whole for attention: queries, keys, values, result and table
            laid_out = 2 * queries + 2 * keys + 2 * model.num_heads * length
            kept += rows * length * self.number_bytes * laid_out * model.num_layers
        if self.number_bytes < model.weight_bytes:  # autocast keeps a smaller copy of the weights during a pass
            kept += model.num_whole * self.number_bytes
        scored = tokens if self.piece is None else min(tokens, self.piece)
        return kept + 3 * scored * model.vocab_size * 4  # float32: logits, log-probabilities and gradient


def _passes_of(config: RunConfig, model: ModelNumbers, *, elsewhere: bool) -> Passes:
    from wordle_rl.policy.loading import attention_of
    from wordle_rl.train.logprobs import tokens_per_piece
    from wordle_rl.train.optimizer import wants_bf16

    checkpointing = config.model.gradient_checkpointing
    if config.backend == "mlx":  # it computes in the type of the weights, and keeps the attention table
        return Passes(min(4, model.weight_bytes), True, checkpointing, _MLX_PIECE)
    # A GPU that is not here is taken for one that computes in bfloat16.
    eager = (config.model.attn_implementation if elsewhere else attention_of(config.model)) == "eager"
    in_bf16 = config.model.precision != "fp32" if elsewhere else wants_bf16(config.model.precision)
    number_bytes = 2 if in_bf16 else 4
    return Passes(number_bytes, eager, checkpointing, tokens_per_piece(model.vocab_size))


def memory_of_stages(
    config: RunConfig,
    numbers: ModelNumbers,
    teacher_length: int | None,
    game_length: int | None,
    *,
    elsewhere: bool = False,
) -> dict[str, MemoryEstimate]:
    """Forecast the memory of each stage of a run, and of `eval`. Unknown lengths, in tokens, count as the longest.

    `elsewhere`: on a GPU that this machine does not have, or on another Mac.
    """
    from wordle_rl.policy.device import device_kind

    longest = min(config.model.max_length, numbers.context or config.model.max_length)
    game_length = min(game_length or longest, numbers.context or game_length or longest)
    mlx, on_a_cpu = config.backend == "mlx", device_kind() == "cpu" and not elsewhere
    passes, weights = _passes_of(config, numbers, elsewhere=elsewhere), weight_bytes(numbers)
    # While MLX draws a turn, the cache of a game exists twice: its own, and a row of the batch. Torch plays as it
    # learns, under autocast; a small model on a CPU does not.
    copies, playing = (2 if mlx else 1), numbers
    if not (on_a_cpu and numbers.num_parameters <= FEW_WEIGHTS):
        playing = replace(numbers, weight_bytes=min(passes.number_bytes, numbers.weight_bytes))
    found: dict[str, MemoryEstimate] = {}
    for stage in config.stages:
        own = config.settings_of(stage)
        training = training_bytes(
            numbers,
            muon=own.optimizer.muon_learning_rate is not None,
            reference=isinstance(own, GRPOSettings) and own.beta > 0,
        )
        games = engine_weights = 0
        if isinstance(own, SFTSettings):
            rows, _ = config.model.batches(own.batch_size)
            step = passes.step_bytes(numbers, rows, teacher_length or longest)
        elif isinstance(own, GRPOSettings):
            games = 0 if own.plays_by_vllm else own.groups_per_step * own.group_size
            step = passes.step_bytes(numbers, _grpo_rows(config, own), game_length)
            engine_weights = 2 * numbers.num_parameters if own.engine == "vllm" else 0
            if own.gradient_noise_every:  # the gradient of the first half
                training += numbers.num_trainable * _trained_bytes(numbers)
        else:
            games = own.groups_per_round * own.group_size
            if isinstance(own, DPOSettings):  # its reference is the whole model
                games, training = max(games, own.boards_per_round * own.guesses_per_board), training + weights
            fits = numbers.has_keys_and_values and game_length <= (numbers.window or game_length)
            shares = fits and not (mlx or passes.checkpointing or config.model.compile)
            step = passes.step_bytes(numbers, *_round_rows(config, own, game_length, shares=shares))
        cache = copies * cache_bytes(playing, game_length, games)
        found[stage] = MemoryEstimate(weights, training, step, cache, engine_weights)
    if config.eval.engine != "vllm":  # vLLM checks its memory itself
        # An evaluation plays as many games at once as fit, at least one.
        found["eval"] = MemoryEstimate(weights, cache=copies * cache_bytes(numbers, game_length, 1))
    factor = _ON_A_CPU if on_a_cpu and not mlx else 1.0
    return {stage: replace(needed, factor=factor) for stage, needed in found.items()}


def _grpo_rows(config: RunConfig, grpo: GRPOSettings) -> int:
    games = grpo.groups_per_step * grpo.group_size
    most = config.game.rules.max_replies
    row_per_turn = config.game.shape is not Shape.TRANSCRIPT or grpo.turn_candidates > 1
    rows_per_game = min(grpo.guesses or most, most) if row_per_turn else 1
    return min(config.model.micro_batch_size or games, games) * rows_per_game


def _round_rows(config: RunConfig, settings: RoundSettings, length: int, *, shares: bool) -> tuple[int, int, int]:
    # Rows of a backward pass, their length, and its tokens if they share their beginnings. Rows that stay together: the
    # two replies of a pair, or a game and its labelled boards.
    max_turns = config.game.max_turns
    together = 1
    if isinstance(settings, DPOSettings):
        together = 2
    elif isinstance(settings, ExpertIterationSettings) and settings.labels != "wins":
        together = max_turns
    rows = settings.batch_size * together
    micro = config.model.micro_batch_size
    rows = min(max(micro, together), rows) if micro else rows
    # A game of learning by play and its labels share the beginning, a pair only its prompt.
    reply = min(config.max_completion_tokens, length // max_turns)
    shared = -(-rows // together) * (length + (together - 1) * reply) if shares and together > 2 else 0
    return rows, length, shared


def shares_memory(config: RunConfig) -> bool:
    """Return True if the GPU shares the main memory of the machine: a Mac, with MLX or torch."""
    from wordle_rl.policy.device import device_kind

    return config.backend == "mlx" or device_kind() == "mps"


def device_for(config: RunConfig, memory_gib: float | None = None) -> Device:
    """Return the device that a run trains on; `memory_gib` stands for the memory of another GPU, or another Mac."""
    from wordle_rl.policy.device import device_memory

    if memory_gib is not None and memory_gib <= 0:
        raise ConfigError(f"--memory-gib {memory_gib:g} is not above 0; give the memory of the GPU or Mac, such as 24")
    if shares_memory(config):
        return unified_memory(memory_gib)
    return device_memory() if memory_gib is None else Device("a GPU", round(memory_gib * _GIB))


def unified_memory(gib: float | None = None) -> Device:
    """Return the part of a Mac's memory that its GPU can use: two thirds up to 36 GiB, three quarters above."""
    total = main_memory_bytes() if gib is None else round(gib * _GIB)
    if total is None:
        return Device("unified memory", None)
    usable = total * 2 // 3 if total <= _SMALL_MAC else total * 3 // 4
    return Device(f"unified memory of {total / _GIB:.0f} GiB, of which the GPU", usable)


def _lowered(config: RunConfig, stage: str, needed: MemoryEstimate) -> str:
    # What to turn if the rough total is too much.
    grpo = stage != "eval" and kind_of(stage) == "grpo"
    if needed.cache > needed.step:
        games = f"{stage}.groups_per_round or {stage}.group_size"
        if grpo:
            games = f"{stage}.groups_per_step, {stage}.group_size or max_completion_tokens"
        return f"lower {'max_batch_size' if stage == 'eval' else games}, for the games' cache"
    batch = "model.micro_batch_size" if grpo else f"{stage}.batch_size or model.micro_batch_size"
    return f"lower {batch}{'' if config.model.gradient_checkpointing else ', or set model.gradient_checkpointing'}"


def check_memory(
    config: RunConfig,
    memory: Mapping[str, MemoryEstimate],
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
    colocated = {name: own.gpu_memory_utilization for name, own in config.stages_of("grpo") if own.engine == "vllm"}
    for stage, needed in memory.items():
        beside = colocated.get(stage, 0.0)
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
        elif (total := least + needed.total - needed.counted) > room and lengths_known:
            # The rough part can be twice too high. If even half of it does not fit, the system would kill the run; a
            # Mac swaps before that, and a step takes hours.
            hopeless = not own.offloaded and (least + total) / 2 > room
            message = (
                f"{stage} may need about {total / _GIB:.1f} GiB, but {available}"
                f"{', so it would swap' if unified else ''}; {_lowered(config, stage, needed)}"
            )
            yield problem(message) if hopeless or unified else warning(message)
        if beside and needed.engine_weights >= device.num_bytes * beside:
            yield problem(
                f"{stage}.gpu_memory_utilization {beside} gives vLLM {device.num_bytes * beside / _GIB:.1f} GiB, but "
                f"its copy of the weights needs {needed.engine_weights / _GIB:.1f}; raise it, or let a vLLM server "
                f"play ({stage}.engine)"
            )
