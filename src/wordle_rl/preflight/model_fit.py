"""Check before a training, without weights, that settings, model, prompts and teacher games go together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.chat.lengths import longest_game, longest_reply
from wordle_rl.config import ConfigError, GRPOSettings, RunConfig, SFTOptimizerSettings
from wordle_rl.config.context import GameContext
from wordle_rl.policy.base import check_vllm
from wordle_rl.policy.directory import game_of
from wordle_rl.policy.numbers import ModelNumbers
from wordle_rl.preflight.findings import Finding
from wordle_rl.preflight.template import check_stops, check_template, check_wording, sample_game
from wordle_rl.prompt import Style
from wordle_rl.runs.progress import in_percent

_SMALL_RATE = 1e-4
"""A step of AdamW is about its rate; in bfloat16 a weight of 0.02 to 0.05 moves by 1e-4 to 2e-4 or not at all."""


_PRETRAINED = 20_000_000
"""Number of parameters from which a model counts as pretrained; the embedded one has 0.8 M."""
_LARGE = 600_000_000
_HIGHEST_RATES = {"small": (2e-3, 2e-4), "large": (5e-4, 5e-5)}
"""Highest rates of AdamW for full fine-tuning, below and from `_LARGE` on: for SFT-like losses, and for GRPO or DPO.

Published fine-tunings use half of these or less: SmolLM-135M-Instruct 3e-4 (model card) and 1e-3 (v2), Qwen2.5 and
Qwen3 from 0.5 to 4 B 1e-5 to 2e-4; RL 1e-6 to 3e-5. Five steps of Muon at 0.02 with AdamW at 3e-3, which suit the
embedded model, take the loss of SmolLM2 on English from 3.19 to 4.43 nats per token.
"""
_HIGHEST_MUON_RATE = 5e-3
_FOR_ADAPTERS = 10
"""Adapters need about ten times the rate of full fine-tuning (Thinking Machines, "LoRA Without Regret", 2025)."""


def check_model(config: RunConfig, context: GameContext, codec: ChatCodec, numbers: ModelNumbers) -> list[Finding]:
    """Run the checks that need no weights: template, stop tokens, rates, budgets."""
    game, prompter = sample_game(context.words, context.prompter), context.prompter
    return [
        *check_template(codec, game, prompter.thinking),
        *check_wording(prompter),
        *check_stops(codec, game, numbers.vocab_size),
        *check_lengths(context, codec, numbers.context, config.max_completion_tokens),
        *check_updates(config, numbers),
        *check_pretrained(config, numbers),
    ]


def check_updates(config: RunConfig, numbers: ModelNumbers) -> list[Finding]:
    """Check that the weights can represent the steps of AdamW; in 16 bits, small ones are lost."""
    if (numbers.trainable_bytes or numbers.weight_bytes) > 2:
        return []
    optimizers: dict[str, SFTOptimizerSettings] = {}
    if "sft" in config.trained:
        optimizers["sft"] = config.sft.optimizer
    if config.algorithm in config.trained:
        optimizers["rl"] = config.rl.optimizer
    return [
        Finding(
            "warning",
            f"{name}.optimizer.learning_rate {settings.learning_rate:g} is too small for many 16-bit weights, which "
            'cannot represent such a change; set model.dtype to "float32" (model.precision still sets the arithmetic), '
            "or model.lora.rank",
        )
        for name, settings in optimizers.items()
        if settings.learning_rate < _SMALL_RATE
    ]


def check_pretrained(config: RunConfig, numbers: ModelNumbers) -> list[Finding]:
    """Check that a pretrained model is not trained like the embedded one: at ruinous rates, on coded prompts."""
    model = config.model
    trained_so = game_of(Path(model.path))
    was_made_here = model.path == "tiny" or (trained_so is not None and trained_so.style is Style.COMPACT)
    if was_made_here or numbers.num_parameters < _PRETRAINED:
        return []
    unfit: list[str] = []
    if config.game.style is Style.COMPACT:
        unfit.append('game.style "compact"')
    adapts = _FOR_ADAPTERS if numbers.num_trainable < numbers.num_parameters else 1
    by_labels, by_reward = _HIGHEST_RATES["large" if numbers.num_parameters >= _LARGE else "small"]
    trainings = [("sft", config.sft.optimizer, by_labels)] if "sft" in config.trained else []
    if config.algorithm in config.trained:
        highest = by_reward if config.algorithm in ("grpo", "dpo") else by_labels
        trainings.append(("rl", config.training.optimizer, highest))
    for stage, optimizer, highest in trainings:
        rates = {"learning_rate": (optimizer.learning_rate, highest * adapts)}
        if optimizer.muon_learning_rate is not None:
            rates["muon_learning_rate"] = (optimizer.muon_learning_rate, _HIGHEST_MUON_RATE)
        unfit += [
            f"{stage}.optimizer.{name} {rate:g} (at most {most:g})"
            for name, (rate, most) in rates.items()
            if rate > most
        ]
    if not unfit:
        return []
    return [
        Finding(
            "problem",
            f"{', '.join(unfit)}: this suits the embedded model but ruins a pretrained one, which a model with "
            f"{numbers.num_parameters / 1e6:,.0f} M parameters is assumed to be; begin with "
            f"`wordle-rl run {_recipe_for(config, numbers)}`",
        )
    ]


def _recipe_for(config: RunConfig, numbers: ModelNumbers) -> str:
    if config.model.load_in_4bit:
        return "qwen2.5-3b-qlora"
    if numbers.num_parameters < 300e6:
        return "smollm2"
    if numbers.num_trainable < numbers.num_parameters or numbers.num_parameters < 1e9:
        return "qwen2.5-1.5b-lora"
    return f"qwen3-{'1.7b' if numbers.num_parameters < 3e9 else '4b'}"


def check_engines(config: RunConfig) -> list[Finding]:
    """Check that vLLM is installed if it is to play, and can play the model."""
    plays = config.algorithm == "grpo" and not config.grpo.is_skipped and config.grpo.plays_by_vllm
    asked = {"grpo": config.grpo.engine} if plays else {}
    if config.eval.engine == "vllm":
        asked["eval"] = config.eval.engine
    findings = []
    if asked:
        try:
            check_vllm(" and ".join(f'{name}.engine "{engine}"' for name, engine in asked.items()))
        except ConfigError as error:
            findings.append(Finding("problem", str(error)))
    if "eval" in asked and "base" in config.evaluated and config.model.path == "tiny":
        message = 'eval.engine "vllm" loads models from directories, but model.path "tiny" is not one; '
        message += "leave base out of eval.also"
        findings.append(Finding("problem", message))
    return findings


def check_lengths(
    context: GameContext, codec: ChatCodec, model_length: int | None, max_completion_tokens: int
) -> list[Finding]:
    """Check that a completion holds a guess and that games fit the model.

    Args:
        context: Words, prompts and rules.
        codec: The model's tokenizer and template.
        model_length: Context of the model in tokens; None if unknown.
        max_completion_tokens: Most tokens of a completion.
    """
    words, prompter, budget = context.words, context.prompter, max_completion_tokens
    findings = []
    guess = longest_reply(words, prompter, codec)
    if budget < guess:
        message = f"max_completion_tokens {budget} is too small; a guess needs up to {guess} tokens, so raise it"
        findings.append(Finding("problem", message))
    game = longest_game(words, prompter, codec, budget)
    if model_length is not None and game > model_length:
        shorter = ", shorten game.system_prompt" if prompter.system_prompt else ""
        fix = 'set game.shape to "state" or game.style to "compact", or raise the context (model.max_length)'
        message = f"{game_too_long(budget, game, 'model', model_length)}; lower it{shorter}, {fix}"
        findings.append(Finding("problem", message))
    return findings


def game_too_long(budget: int, game: int, taker: str, length: int) -> str:
    """Describe that a game needs `game` tokens, but `taker` (a model, an engine, a server) takes only `length`."""
    return f"a game can need {game} tokens with max_completion_tokens {budget}, but the {taker} takes {length}"


def check_on_policy(config: RunConfig) -> list[Finding]:
    """Check that no clip range is set if all ratios are 1, because games are trained on once by their own weights."""
    if config.algorithm != "grpo" or config.grpo.batches_ahead or config.grpo.epsilon == GRPOSettings().epsilon:
        return []
    message = "grpo.epsilon has no effect: without grpo.batches_ahead all ratios are 1; leave it out"
    return [Finding("problem", message)]


_MANY_CUT, _MOST_CUT = 0.05, 0.5
"""Fractions of the teacher's replies above the token budget that cause a warning, and a problem."""


def check_teacher(lengths: Sequence[int], max_length: int) -> list[Finding]:
    """Check that teacher games, with these lengths in tokens, fit model.max_length."""
    left_out = sum(length > max_length for length in lengths) / len(lengths)
    if not left_out:
        return []
    message = (
        f"model.max_length {max_length} leaves out {in_percent(left_out, 0)}% of the teacher's games; "
        f"raise it to {max(lengths)}"
    )
    return [Finding("problem" if left_out == 1 else "warning", message)]


def check_teacher_replies(lengths: Sequence[int], max_completion_tokens: int) -> list[Finding]:
    """Check that replies as long as the teacher's, in tokens, fit the budget."""
    cut = sum(length > max_completion_tokens for length in lengths) / len(lengths)
    if cut <= _MANY_CUT:
        return []
    enough = sorted(lengths)[math.ceil(0.95 * len(lengths)) - 1]
    message = (
        f"{in_percent(cut, 0)}% of the teacher's replies are longer than max_completion_tokens {max_completion_tokens},"
        f" so completions would be cut before the guess; raise it (95 % need at most {enough})"
    )
    return [Finding("problem" if cut > _MOST_CUT else "warning", message)]
