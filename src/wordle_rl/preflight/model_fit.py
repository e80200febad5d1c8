"""Do settings, model, prompts and teacher games go together? Asked before a training, without weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.chat.lengths import longest_game, longest_reply
from wordle_rl.config import ConfigError, GRPOSettings, RunConfig, SFTOptimizerSettings
from wordle_rl.config.context import GameContext
from wordle_rl.models.directory import game_of
from wordle_rl.models.numbers import ModelNumbers
from wordle_rl.preflight.findings import Finding
from wordle_rl.preflight.template import check_stops, check_template, check_wording, sample_game
from wordle_rl.prompt import Style
from wordle_rl.runs.progress import in_percent
from wordle_rl.samplers.base import check_vllm

_SMALL_RATE = 1e-4
"""A step of AdamW is about its rate; a weight of 0.02 to 0.05 in bfloat16 moves by 1e-4 to 2e-4 or not at all."""


_PRETRAINED = 20_000_000
"""Parameters from which on a model is taken for pretrained; the embedded one has 0.8 M."""
_LARGE = 600_000_000
_HIGHEST_RATES = {"small": (2e-3, 2e-4), "large": (5e-4, 5e-5)}
"""Highest rates of AdamW for whole weights, below and from `_LARGE` on: on games or labels, and in GRPO or DPO.

Published fine-tunings stay at half of them or less: SmolLM-135M-Instruct 3e-4 (model card) and 1e-3 (v2), Qwen2.5 and
Qwen3 from 0.5 to 4 B 1e-5 to 2e-4; RL 1e-6 to 3e-5. Five steps of Muon at 0.02 with AdamW at 3e-3, which suit the
embedded model, take the loss of SmolLM2 on English from 3.19 to 4.43 nats a token.
"""
_HIGHEST_MUON_RATE = 5e-3
_FOR_ADAPTERS = 10
"""Adapters want about ten times the rate of whole weights (Thinking Machines, "LoRA Without Regret", 2025)."""


def check_model(config: RunConfig, context: GameContext, codec: ChatCodec, numbers: ModelNumbers) -> list[Finding]:
    """The checks that need no weights and take no time: template, stop tokens, rates, budgets."""
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
    """Check that the trained weights can represent the steps of AdamW: in 16 bits small ones are lost."""
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
            f"{name}.optimizer.learning_rate {settings.learning_rate:g} is lost on many weights of 16 bits, which "
            'cannot hold so small a change; set model.dtype to "float32" (the arithmetic stays as precision says), or '
            "model.lora.rank",
        )
        for name, settings in optimizers.items()
        if settings.learning_rate < _SMALL_RATE
    ]


def check_pretrained(config: RunConfig, numbers: ModelNumbers) -> list[Finding]:
    """Check that a pretrained model is not trained as the embedded one is: at ruinous rates, on prompts in code."""
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
            f"{', '.join(unfit)}: made for the embedded model, ruinous to a pretrained one, as this of "
            f"{numbers.num_parameters / 1e6:,.0f} M parameters is taken to be; begin with "
            f"`wordle-rl run {_recipe_for(config, numbers)}`",
        )
    ]


def _recipe_for(config: RunConfig, numbers: ModelNumbers) -> str:
    """The shipped config nearest to a pretrained model."""
    if config.model.load_in_4bit:
        return "qwen2.5-3b-qlora"
    if numbers.num_parameters < 300e6:
        return "smollm2"
    if numbers.num_trainable < numbers.num_parameters or numbers.num_parameters < 1e9:
        return "qwen2.5-1.5b-lora"
    return f"qwen3-{'1.7b' if numbers.num_parameters < 3e9 else '4b'}"


def check_engines(config: RunConfig) -> list[Finding]:
    """Check that vLLM is installed where it is to play, and can play the model."""
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
        message = 'eval.engine "vllm" reads models from directories, and model.path "tiny" is none; '
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
        model_length: The most tokens the model takes; None if unknown.
        max_completion_tokens: Tokens of one completion.
    """
    words, prompter, budget = context.words, context.prompter, max_completion_tokens
    findings = []
    guess = longest_reply(words, prompter, codec)
    if budget < guess:
        message = f"max_completion_tokens {budget} is too small: to guess a word takes up to {guess} tokens"
        findings.append(Finding("problem", message))
    game = longest_game(words, prompter, codec, budget)
    if model_length is not None and game > model_length:
        shorter = ", shorten game.system_prompt" if prompter.system_prompt else ""
        fix = 'set game.shape to "state" or game.style to "compact", or raise the context (model.max_length)'
        message = f"{game_too_long(budget, game, 'model', model_length)}; lower it{shorter}, {fix}"
        findings.append(Finding("problem", message))
    return findings


def game_too_long(budget: int, game: int, taker: str, length: int) -> str:
    """Error text for games of `game` tokens, of which `taker` (a model, an engine, a server) takes `length`."""
    return f"a game may take {game} tokens with max_completion_tokens {budget}, the {taker} takes {length}"


def check_on_policy(config: RunConfig) -> list[Finding]:
    """Check that GRPO trains on each game once, by the distribution that its tokens were drawn from.

    No clip range is given, since ratios are 1.
    """
    if config.algorithm != "grpo":
        return []
    grpo, usual = config.grpo, GRPOSettings()
    messages = []
    if not grpo.batches_ahead and grpo.epsilon != usual.epsilon:
        messages.append(
            "grpo.epsilon clips ratios of games that older weights played; without "
            "grpo.batches_ahead ratios are 1; leave it out"
        )
    return [Finding("problem", message) for message in messages]


_MANY_CUT, _MOST_CUT = 0.05, 0.5
"""Fractions of the teacher's replies over the token budget, above which there is a warning and a refusal."""


def check_teacher(lengths: Sequence[int], max_length: int) -> list[Finding]:
    """Check that teacher games of these lengths in tokens fit model.max_length."""
    left_out = sum(length > max_length for length in lengths) / len(lengths)
    if not left_out:
        return []
    message = (
        f"model.max_length {max_length} leaves out {in_percent(left_out, 0)}% of the teacher's games; "
        f"raise it to {max(lengths)}"
    )
    return [Finding("problem" if left_out == 1 else "warning", message)]


def check_teacher_replies(lengths: Sequence[int], max_completion_tokens: int) -> list[Finding]:
    """Check that completions as long as the teacher's, in tokens, fit the budget."""
    cut = sum(length > max_completion_tokens for length in lengths) / len(lengths)
    if cut <= _MANY_CUT:
        return []
    enough = sorted(lengths)[math.ceil(0.95 * len(lengths)) - 1]
    message = (
        f"{in_percent(cut, 0)}% of the teacher's replies take more than max_completion_tokens {max_completion_tokens}, "
        f"so completions would be cut before their guess; raise it (95 % take at most {enough})"
    )
    return [Finding("problem" if cut > _MOST_CUT else "warning", message)]
