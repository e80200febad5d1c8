"""Memory of a training, estimated from a model's numbers alone. Pure arithmetic; nothing is loaded.

Weights, gradients, optimizer state and the key/value cache are counted exactly. Activations are a rule of thumb, right
within a factor of two. The surprise in multi-turn training is the cache: every token of every game keeps
`2 x layers x key/value heads x head size` numbers until the games end. For Qwen3-4B in bfloat16 that is 144 KiB per
token: 0.56 GiB for a game of 4,096 tokens, 9 GiB for a group of 16, 288 GiB for 32 groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from wordle_rl.config import DPOTraining, GRPOTraining, RLTraining, RoundTraining, RunConfig, SFTTraining
from wordle_rl.policy.numbers import ModelNumbers
from wordle_rl.prompt import Shape
from wordle_rl.runs.distributed import Sharding

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
