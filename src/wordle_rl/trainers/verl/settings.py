"""Settings of verl that a run's config has no place for, and settings of a run that verl does not follow."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from wordle_rl.config import ConfigError, RunConfig, Section
from wordle_rl.config.rl import CREDIT_NAMES
from wordle_rl.prompt import Shape


class VerlSettings(Section):
    """verl on Ray."""

    nodes: int = Field(1, ge=1)
    """Machines. Above 1, Ray must run on all of them: see scripts/verl/nodes.sh."""
    gpus_per_node: int = Field(1, ge=1)
    """GPUs of each machine."""
    estimator: Literal["grpo", "ppo"] = "grpo"
    """`grpo`: advantages by grpo.credit; `ppo`: generalized advantage estimation with a critic of the same model."""
    critic_learning_rate: float = Field(1e-5, gt=0)
    """Learning rate of the critic, with estimator ppo."""
    epochs: int = Field(0, ge=0)
    """Passes over the training secrets; 0: as many steps as grpo.steps says."""
    mini_batch_size: int = Field(0, ge=0)
    """Secrets per optimizer step; 0: all of grpo.groups_per_step, so that games are trained on by the weights that
    played them."""
    max_prompt_tokens: int = Field(1024, ge=1)
    """Longest opening prompt. Longer ones are left out, which leaves no training secret, so it must fit."""
    max_response_tokens: int = Field(3072, ge=1)
    """Longest game after its opening prompt, feedback included. A game that may exceed it is truncated."""
    rollout: Literal["vllm", "sglang"] = "vllm"
    """Server that plays."""
    tensor_parallel: int = Field(1, ge=1)
    """GPUs that hold one server together."""
    memory_fraction: float = Field(0.5, gt=0, lt=1)
    """Fraction of a GPU's memory for the server's weights and key/value cache."""
    offload: bool = False
    """Keep parameters and optimizer states in main memory while games are played."""
    validate_every_steps: int = Field(20, ge=0)
    """Play all validation secrets greedily before the first step and every this many steps; 0: never."""
    tool: bool = False
    """Guess by calling a tool instead of by tags, for models trained to call tools."""
    overrides: tuple[str, ...] = ()
    """Further settings of verl, as Hydra overrides such as `trainer.project_name=wordle`; they count last."""


def check_settings(config: RunConfig, verl: VerlSettings) -> None:
    """Refuse what verl would ignore, or would fail on after an hour, in one line with the fix of each setting."""
    problems = [problem for problem, there in _not_followed(config, verl).items() if there]
    if problems:
        raise ConfigError(f"verl does not follow {'; nor '.join(problems)}")
    _check_sizes(config, verl)


def _not_followed(config: RunConfig, verl: VerlSettings) -> dict[str, bool]:
    grpo, rl, model = config.grpo, config.rl, config.model
    return {
        'algorithm: only "grpo" is trained this way': config.algorithm != "grpo" or grpo.is_skipped,
        # What is played.
        'game.shape: a game is one row; set it to "transcript"': config.game.shape is not Shape.TRANSCRIPT,
        "grpo.turn_candidates: a turn is sampled once; set it to 1": grpo.turn_candidates > 1,
        "grpo.guesses: games are played to their end; set it to 0": grpo.guesses > 0,
        "rl.outside_rate: secrets are answers; set it to 0": bool(rl.outside_rate),
        "traces.rl_only_fraction: all training secrets are played; set it to 0": config.traces.rl_only_fraction > 0,
        "grpo.prioritized_fraction: secrets take turns; leave it out": (
            not grpo.is_default("prioritized_fraction") and grpo.prioritized_fraction > 0
        ),
        "grpo.probe_every_steps: secrets take turns; set it to 0": grpo.probe_every_steps > 0,
        "grpo.max_refills: no group is replayed; leave it out": (
            not grpo.is_default("max_refills") and grpo.max_refills > 0
        ),
        "rl.reward: weights never switch here; name a preset that is no curriculum": (
            rl.reward.schedule().end is not None
        ),
        "max_batch_size: the server chooses its batches; leave it out": (not config.is_default("max_batch_size")),
        # How it is trained on.
        "grpo.credit: a function of your own is not known here; give turn, guess or game": (
            grpo.credit not in CREDIT_NAMES
        ),
        "grpo.credit: a critic takes its place with --estimator ppo; leave it out, or over a preset give turn": (
            verl.estimator == "ppo" and not grpo.is_default("credit")
        ),
        'grpo.mask_overlong: without the tokens of a turn its reward has no place; set grpo.credit to "game"': (
            grpo.mask_overlong and grpo.credit != "game" and verl.estimator == "grpo"
        ),
        "grpo.validate_every_steps: weights are not chosen by validation; set it to 0 and --validate-every-steps": (
            grpo.validate_every_steps > 0
        ),
        "grpo.engine: --rollout says what plays; leave it out": not grpo.is_default("engine"),
        "grpo.gpu_memory_utilization: --memory-fraction says so; leave it out": (
            not grpo.is_default("gpu_memory_utilization")
        ),
        "rl.optimizer.muon_learning_rate: AdamW alone trains here; leave it out": (
            rl.optimizer.muon_learning_rate is not None
        ),
        'rl.optimizer.schedule: use "constant" or "cosine"': rl.optimizer.schedule not in ("constant", "cosine"),
        "model.chat_template: the model's own is rendered here; save yours with the model": (
            model.chat_template is not None
        ),
        "model.load_in_4bit: weights are held in 16 or 32 bits; set it to false": model.load_in_4bit,
        "model.lora: whole models are trained here; set model.lora.rank to 0": model.lora.rank > 0,
    }


def _check_sizes(config: RunConfig, verl: VerlSettings) -> None:
    # verl finds these out too, but only once it holds the cluster.
    groups, size = config.grpo.groups_per_step, config.training.group_size
    gpus, mini = verl.nodes * verl.gpus_per_node, verl.mini_batch_size or groups
    if groups % mini:
        raise ConfigError(f"--mini-batch-size {mini} must divide grpo.groups_per_step {groups}")
    if mini * size % gpus:
        raise ConfigError(
            f"{mini} secrets of {size} games are no whole number for each of {gpus} GPUs; change grpo.groups_per_step, "
            "rl.group_size or --mini-batch-size"
        )
    micro = config.model.micro_batch_size
    if micro and mini * size // gpus % micro:
        raise ConfigError(f"model.micro_batch_size {micro} must divide the {mini * size // gpus} games of a GPU")
    if gpus % verl.tensor_parallel:
        raise ConfigError(f"--tensor-parallel {verl.tensor_parallel} must divide the {gpus} GPUs")
    if config.max_completion_tokens >= verl.max_response_tokens:
        raise ConfigError(
            f"--max-response-tokens {verl.max_response_tokens} must exceed max_completion_tokens "
            f"{config.max_completion_tokens}, since a game has several turns"
        )
