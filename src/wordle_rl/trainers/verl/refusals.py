"""Settings that verl would not follow, each with what to do about it."""

from __future__ import annotations

from wordle_rl.config import ConfigError, RunConfig
from wordle_rl.config.rl import CREDIT_NAMES
from wordle_rl.prompt import Shape
from wordle_rl.trainers.verl.settings import VerlSettings


def check_settings(config: RunConfig, verl: VerlSettings) -> None:
    """Refuse what would be ignored or would fail after an hour.

    Raises:
        ConfigError: In one line, each setting with its fix.
    """
    problems = [problem for problem, there in {**_games(config), **_training(config, verl)}.items() if there]
    if problems:
        raise ConfigError(f"verl does not follow {'; nor '.join(problems)}")
    _check_sizes(config, verl)


def _games(config: RunConfig) -> dict[str, bool]:
    """Settings of what is played."""
    grpo, rl = config.grpo, config.rl
    return {
        'algorithm: only "grpo" is trained this way': config.algorithm != "grpo" or grpo.is_skipped,
        'game.shape: a game is one row; set it to "transcript"': config.game.shape is not Shape.TRANSCRIPT,
        "grpo.turn_candidates: a turn is sampled once; set it to 1": grpo.turn_candidates > 1,
        "rl.outside_rate: secrets are answers; set it to 0": bool(rl.outside_rate),
        "traces.rl_only_fraction: all training secrets are played; set it to 0": config.traces.rl_only_fraction > 0,
        "rl.starts.file: initial states are random; leave it out": rl.starts.file is not None,
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
    }


def _training(config: RunConfig, verl: VerlSettings) -> dict[str, bool]:
    """Settings of how it is trained on."""
    grpo, optimizer = config.grpo, config.rl.optimizer
    by_turn = grpo.credit != "game" and verl.estimator == "grpo"
    return {
        "grpo.credit: a function of your own is not known here; give turn, guess or game": (
            grpo.credit not in CREDIT_NAMES
        ),
        "grpo.credit: a critic takes its place with --estimator ppo; leave it out, or over a preset give turn": (
            verl.estimator == "ppo" and not grpo.is_default("credit")
        ),
        'grpo.mask_overlong: without the tokens of a turn its reward has no place; set grpo.credit to "game"': (
            grpo.mask_overlong and by_turn
        ),
        "grpo.validate_every_steps: weights are not chosen by validation; set it to 0 and --validate-every-steps": (
            grpo.validate_every_steps > 0
        ),
        "grpo.engine: --rollout says what plays; leave it out": not grpo.is_default("engine"),
        "grpo.gpu_memory_utilization: --memory-fraction says so; leave it out": (
            not grpo.is_default("gpu_memory_utilization")
        ),
        "rl.optimizer.muon_learning_rate: AdamW alone trains here; leave it out": optimizer.muon_learning_rate
        is not None,
        'rl.optimizer.schedule: use "constant" or "cosine"': optimizer.schedule not in ("constant", "cosine"),
        "model.chat_template: the model's own is rendered here; save yours with the model": (
            config.model.chat_template is not None
        ),
        "model.load_in_4bit: weights are held in 16 or 32 bits; set it to false": config.model.load_in_4bit,
        "model.lora: whole models are trained here; set model.lora.rank to 0": config.model.lora.rank > 0,
    }


def _check_sizes(config: RunConfig, verl: VerlSettings) -> None:
    """Refuse batches that do not divide, and a server larger than the machines."""
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
