"""Checks before a training: template, stop tokens, budgets, memory. Functions of values, each with its findings.

A problem is what cannot work; a run with one is refused. A warning is what works and wastes. A note is worth knowing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

from wordle_rl.chat import ChatCodec
from wordle_rl.config import ConfigError, OptimizerSettings, RunConfig, VLLMSettings
from wordle_rl.fit import fit_problems, outgrown
from wordle_rl.game import Outcome, Turn, score_guess
from wordle_rl.memory import Device, MemoryEstimate, ModelNumbers, Stage
from wordle_rl.processes import Sharding
from wordle_rl.prompt import Message, Prompter, Shape, Thinking
from wordle_rl.words import WordList

_CLOSED_THOUGHT = re.compile(r"<think>\s*</think>\s*$")
_GIB = 1024**3
_SMALL_RATE = 1e-4
"""A step of AdamW is about its rate; a weight of 0.02 to 0.05 in bfloat16 moves by 1e-4 to 2e-4 or not at all."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something found, in one line that names the setting to change."""

    level: Literal["problem", "warning", "note"]
    message: str


def refuse(findings: Iterable[Finding]) -> None:
    """Refuse to go on if there is a problem.

    Raises:
        ConfigError: With all problems in one line.
    """
    problems = [finding.message for finding in findings if finding.level == "problem"]
    if problems:
        raise ConfigError("; ".join(problems))


def check_model(
    config: RunConfig, words: WordList, prompter: Prompter, codec: ChatCodec, numbers: ModelNumbers
) -> list[Finding]:
    """The checks that need no weights and take no time: template, stop tokens, rates, budgets."""
    game = sample_game(words, prompter)
    fits = fit_problems(words, prompter, codec, numbers.context, budgets_of(config))
    return [
        *check_template(codec, game, prompter.thinking),
        *check_stops(codec, game, numbers.vocab_size),
        *(Finding("problem", message) for message in fits),
        *check_engine_length(config, words, prompter, codec),
        *check_updates(config, numbers),
    ]


def check_updates(config: RunConfig, numbers: ModelNumbers) -> list[Finding]:
    """Whether the weights that are trained can take up what AdamW adds: in 16 bits small steps are lost."""
    if (numbers.trainable_bytes or numbers.weight_bytes) > 2:
        return []
    stages: dict[str, OptimizerSettings] = {"sft": config.sft.optimizer}
    if not config.play_settings.is_skipped:
        stages[config.algorithm] = config.play_settings.optimizer
    return [
        Finding(
            "warning",
            f"{name}.optimizer.learning_rate {settings.learning_rate:g} is lost on many weights of 16 bits, which "
            'cannot hold so small a change; set model.dtype to "float32" (the arithmetic stays as precision says), or '
            "model.lora.rank",
        )
        for name, settings in stages.items()
        if settings.learning_rate < _SMALL_RATE
    ]


def check_engines(config: RunConfig) -> list[Finding]:
    """Whether vLLM is there where it is to play, and plays what it is given."""
    grpo = config.grpo.engine if config.algorithm == "grpo" and not config.grpo.is_skipped else "transformers"
    asked = [name for name, engine in (("grpo", grpo), ("eval", config.eval.engine)) if engine == "vllm"]
    findings = []
    if asked and find_spec("vllm") is None:
        settings = " and ".join(f'{name}.engine "vllm"' for name in asked)
        message = f'{settings} needs a package that is not installed: pip install "wordle-rl[vllm]"'
        findings.append(Finding("problem", f'{message}, or use "transformers"'))
    if "eval" in asked and config.model.lora.rank:
        message = 'eval.engine "vllm" plays whole models, not adapters; use "transformers", or merge and evaluate later'
        findings.append(Finding("problem", message))
    return findings


def check_engine_length(config: RunConfig, words: WordList, prompter: Prompter, codec: ChatCodec) -> list[Finding]:
    """Whether the engine beside the training takes a whole game, where it is told how many tokens it takes."""
    grpo, budget = config.grpo, config.grpo.sampling.max_completion_tokens
    if config.algorithm != "grpo" or grpo.is_skipped or grpo.engine != "vllm" or not grpo.vllm.max_length:
        return []
    name, length = "grpo.sampling.max_completion_tokens", grpo.vllm.max_length
    told = outgrown(words, prompter, codec, name, budget, "engine", length)
    mend = "raise grpo.vllm.max_length, or leave it out for as many as a game may take"
    return [Finding("problem", f"{told}; {mend}")] if told else []


def budgets_of(config: RunConfig) -> dict[str, int]:
    """Name of a setting -> tokens it allows for one reply."""
    budgets = {"eval.max_completion_tokens": config.eval.max_completion_tokens}
    play = config.play_settings
    if not play.is_skipped:
        budgets[f"{config.algorithm}.sampling.max_completion_tokens"] = play.sampling.max_completion_tokens
    return budgets


def sample_game(words: WordList, prompter: Prompter) -> list[Message]:
    """A conversation of three turns with thinking where that is allowed; in state shape its last turn alone."""
    secret, *others = (words.answers[place] for place in (0, len(words.answers) // 2, -1))
    guesses = [*others, secret]
    board = [Turn(guess, score_guess(secret, guess), Outcome.SCORED) for guess in guesses]
    replies = [
        Message(role="assistant", content=prompter.reply(guess, f"First this,\nthen that: {guess}."))
        for guess in guesses
    ]
    if prompter.shape is Shape.STATE:
        return [*prompter.state(board[:2]), replies[-1]]
    messages = [*prompter.opening(), replies[0]]
    for count in (1, 2):
        messages += [prompter.feedback(board[:count]), replies[count]]
    return messages


def check_template(codec: ChatCodec, game: Sequence[Message], thinking: Thinking) -> list[Finding]:
    """Whether a server that renders the game anew each turn reads what was trained, and who opens a thought."""
    findings = []
    ends = [end for end, message in enumerate(game) if message["role"] == "assistant"]
    if any(codec.prompt_ids(game[:end]) != codec.rendered_ids(game[:end]) for end in ends):
        findings.append(
            Finding(
                "warning",
                "the tokenizer reads a whole conversation otherwise than turn by turn; a server's prompts will differ "
                "from those trained on, so play through wordle-rl, or choose another tokenizer",
            )
        )
    if codec.frame.opened and thinking is Thinking.OFF:
        findings.append(
            Finding(
                "problem",
                'the chat template opens a thought in every prompt, but game.thinking is "off"; set it to "optional", '
                "or model.template_kwargs.enable_thinking to false if the template knows that",
            )
        )
    if _CLOSED_THOUGHT.search(codec.frame.bridge_tail) and thinking is Thinking.REQUIRED:
        findings.append(
            Finding(
                "problem",
                'the chat template closes every thought before the reply, but game.thinking is "required"; set it to '
                '"off", or leave model.template_kwargs.enable_thinking out',
            )
        )
    return findings


def check_stops(codec: ChatCodec, game: Sequence[Message], vocab_size: int) -> list[Finding]:
    """Whether a reply ends where it should: with a token that the model knows and that no reply holds inside it."""
    ids, _ = codec.encode_game(game)
    tokenizer, end = codec.tokenizer, codec.turn_end_ids[0]
    replies = [message["content"] for message in game if message["role"] == "assistant"]
    findings = []
    if any(codec.stop_ids.intersection(codec.reply_ids(reply)[:-1]) for reply in replies):
        findings.append(
            Finding(
                "problem",
                f"a turn ends with {codec.frame.turn_end!r}, which replies hold too; choose a chat template that "
                "closes a turn with a token of its own",
            )
        )
    largest = max([*ids, *codec.stop_ids])
    if largest >= vocab_size:
        findings.append(
            Finding(
                "problem",
                f"the tokenizer writes {token_text(codec, largest)!r} as token {largest}, the model has {vocab_size} "
                "tokens; choose a tokenizer and chat template made for this model",
            )
        )
    unknown = tokenizer.unk_token_id
    if unknown is not None and unknown not in codec.stop_ids and unknown in ids:
        findings.append(
            Finding("problem", "the tokenizer has no tokens for parts of the prompts; choose another game.style")
        )
    if tokenizer.eos_token_id != end:
        findings.append(
            Finding(
                "note",
                f"the tokenizer's eos_token is {tokenizer.eos_token!r}, a turn ends with {codec.frame.turn_end!r}: "
                "sampling stops at both and the saved generation_config.json names both",
            )
        )
    bos = tokenizer.bos_token_id
    if bos is not None and tokenizer("a")["input_ids"][:1] == [bos] and ids[:1] != [bos]:
        findings.append(
            Finding(
                "warning",
                f"texts for this model begin with {tokenizer.bos_token!r}, but the chat template leaves it out; "
                "add it to the template",
            )
        )
    return findings


def token_text(codec: ChatCodec, token: int) -> str:
    """What a token reads as, special ones included."""
    return str(codec.tokenizer.decode([token], skip_special_tokens=False))


_MANY_CUT, _MOST_CUT = 0.05, 0.5
"""Shares of the teacher's replies that may be too long for a budget: to be told, and to be refused from."""


def check_teacher(lengths: Sequence[int], max_length: int) -> list[Finding]:
    """Whether teacher games of these lengths in tokens may be learnt from."""
    left_out = sum(length > max_length for length in lengths) / len(lengths)
    if not left_out:
        return []
    message = (
        f"sft.max_length {max_length} leaves out {left_out:.0%} of the teacher's games; raise it to {max(lengths)}"
    )
    return [Finding("problem" if left_out == 1 else "warning", message)]


def check_teacher_replies(lengths: Sequence[int], budgets: Mapping[str, int]) -> list[Finding]:
    """Whether replies as long as the teacher's, in tokens, could be said to their end within each budget."""
    findings = []
    enough = sorted(lengths)[math.ceil(0.95 * len(lengths)) - 1]
    for name, budget in budgets.items():
        cut = sum(length > budget for length in lengths) / len(lengths)
        if cut > _MANY_CUT:
            message = (
                f"{cut:.0%} of the teacher's replies take more than {name} {budget}, so what is learnt would be cut "
                f"before its guess; raise it (95 % take at most {enough})"
            )
            findings.append(Finding("problem" if cut > _MOST_CUT else "warning", message))
    return findings


_LESS: Mapping[Stage, str] = {
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
_COUNTED: Mapping[Stage, str] = {
    "sft": _TRAINED,
    "grpo": _TRAINED,
    "expert_iteration": _TRAINED,
    "dpo": "weights, those of the SFT model beside them, gradients and optimizer",
    "dagger": _TRAINED,
    "eval": "weights",
}
_MUCH_LESS = 'set model.lora.rank, with it model.dtype "bfloat16", or choose a smaller model or a larger device'
_SHARD = "; the devices here hold it together if the launch shards it, as configs/accelerate/fsdp2.yaml does"
_UNSHARDED = Sharding()


def check_memory(
    memory: Mapping[Stage, MemoryEstimate],
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
        told = f"{device.name} has {device.num_bytes / _GIB:.1f} GiB" + (f", {share:.0%} of it vLLM's" if share else "")
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
