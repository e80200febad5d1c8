"""A run's config as verl's: Hydra overrides over verl's own defaults.

Also settings of verl that a run's config has no place for, and settings of a run that verl does not follow. Nothing
here needs verl.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from wordle_rl.config.base import ConfigError, Section
from wordle_rl.config.refusals import VERL
from wordle_rl.config.run import RunConfig
from wordle_rl.config.stages import IMPORTANCE_CAP, GRPOSettings
from wordle_rl.config.training import ADAM_BETAS, check_vllm_temperature
from wordle_rl.runs.run import Tracking


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
    activation_offload: bool = False
    """Keep activations of a forward pass in main memory until the backward pass needs them: longer games fit, and a
    step waits for the link."""
    validate_every_steps: int = Field(20, ge=0)
    """Play all validation secrets greedily before the first step and every this many steps; 0: never."""
    tool: bool = False
    """Guess by calling a tool instead of by tags, for models trained to call tools."""
    overrides: tuple[str, ...] = ()
    """Further settings of verl, as Hydra overrides such as `trainer.project_name=wordle`; they count last."""


def check_settings(config: RunConfig, verl: VerlSettings) -> None:
    """Refuse what verl would ignore, or would fail on after an hour, in one line with the fix of each setting."""
    if config.stages[-1] != "grpo":
        raise ConfigError("verl trains a run's GRPO, which must be its last stage; end stages with grpo")
    grpo = config.grpo
    problems = [sentence for is_asked, sentence in VERL if is_asked(config)]
    if verl.estimator == "ppo" and not grpo.is_default("credit"):
        problems.append(
            "grpo.credit: a critic takes its place with --estimator ppo; leave it out, or over a preset give turn"
        )
    if grpo.mask_overlong and (grpo.credit != "game" or verl.estimator == "ppo"):
        problems.append(
            "grpo.mask_overlong: without the tokens of a turn its reward has no place; set it to false, or grpo.credit "
            'to "game" with --estimator grpo'
        )
    if problems:
        raise ConfigError(f"verl does not follow {'; nor '.join(problems)}")
    if verl.rollout == "vllm":
        check_vllm_temperature(config.grpo.temperature, "grpo.temperature")
    _check_sizes(config, verl)


def _check_sizes(config: RunConfig, verl: VerlSettings) -> None:
    # verl finds these out too, but only once it holds the cluster.
    groups, size = config.grpo.groups_per_step, config.grpo.group_size
    gpus, mini = verl.nodes * verl.gpus_per_node, verl.mini_batch_size or groups
    if groups % mini:
        raise ConfigError(f"--mini-batch-size {mini} must divide grpo.groups_per_step {groups}")
    if mini * size % gpus:
        raise ConfigError(
            f"{mini} secrets of {size} games are no whole number for each of {gpus} GPUs; change grpo.groups_per_step, "
            "grpo.group_size or --mini-batch-size"
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


AGENT, TOOL_AGENT = "wordle", "wordle_tool"
"""Names of the agent loops: replies in tags, and guesses by tool calls."""

CREDIT = {"turn": "wordle_turn", "guess": "wordle_guess", "game": "grpo"}
"""grpo.credit -> verl's estimator; the first two are those of `trainer`."""

_AGGREGATION = {"dapo": "token-mean", "grpo": "seq-mean-token-mean", "dr_grpo": "seq-mean-token-sum-norm"}
"""grpo.loss_type -> verl's way to sum up a loss."""

Tree = dict[str, Any]


def translated(config: RunConfig, verl: VerlSettings, run: Path, model: str) -> list[str]:
    """Return all overrides of a run that `check_settings` accepts; those of `verl.overrides` come last.

    `model` is the directory or name of the model to start from. With `++`, Hydra also adds keys that verl leaves out.
    """
    training = config.grpo
    tree: Tree = {
        "wordle": {"run_directory": str(run)},  # read by our trainer
        "data": _data(config, training, verl, run),
        "algorithm": _algorithm(training, verl),
        "actor_rollout_ref": {
            "model": _model(config, verl, model),
            "actor": _actor(config, training, verl),
            "ref": {
                "log_prob_micro_batch_size_per_gpu": _micro_batch(config, verl),
                "fsdp_config": {"param_offload": verl.offload, **_engine(config)},
            },
            "rollout": _rollout(config, training, verl, run),
        },
        "reward": {"num_workers": 1},  # rewards are made where games are played, so nothing waits for these
        "trainer": _trainer(config, training, verl, run),
    }
    if verl.nodes > 1:
        # Ray runs on several machines already: it is joined, not started.
        tree["ray_kwargs.ray_init.address"] = "auto"
        tree["actor_rollout_ref.nccl_timeout"] = 1800
    else:
        # Ray reserves a core for each unit, and one machine has fewer cores than verl's eight units suppose.
        units = 4 if verl.gpus_per_node > 1 else 1
        tree["transfer_queue.backend.SimpleStorage.num_data_storage_units"] = units
    if verl.estimator == "ppo":
        tree["critic"] = _critic(config, training, verl, model)
    return [*(f"++{key}={_written(value)}" for key, value in _leaves(tree)), *verl.overrides]


def _data(config: RunConfig, training: GRPOSettings, verl: VerlSettings, run: Path) -> Tree:
    return {
        "train_files": str(data_file(run, "train")),
        "val_files": str(data_file(run, "val")),
        "train_batch_size": training.groups_per_step,
        "val_batch_size": 256,  # secrets at once; every secret is played either way
        "max_prompt_length": verl.max_prompt_tokens,
        "max_response_length": verl.max_response_tokens,
        "filter_overlong_prompts": True,
        "truncation": "error",
        "return_raw_chat": True,
        "shuffle": True,
        "seed": config.seed,
        "apply_chat_template_kwargs": dict(config.model.template_kwargs),
    }


def _algorithm(training: GRPOSettings, verl: VerlSettings) -> Tree:
    cap = IMPORTANCE_CAP if training.max_importance_ratio is None else training.max_importance_ratio
    return {
        "adv_estimator": "gae" if verl.estimator == "ppo" else CREDIT[training.credit],
        "norm_adv_by_std_in_grpo": training.scale_advantages,
        "use_kl_in_reward": False,
        # A server never computes quite alike, so ratios are bounded.
        "rollout_correction": {"rollout_is": "token" if cap else None, "rollout_is_threshold": cap or IMPORTANCE_CAP},
    }


def _model(config: RunConfig, verl: VerlSettings, model: str) -> Tree:
    attention = config.model.attn_implementation
    return {
        "path": model,
        "enable_gradient_checkpointing": config.model.gradient_checkpointing,
        "enable_activation_offload": verl.activation_offload,
        **({"override_config": {"attn_implementation": attention}} if attention else {}),
    }


def _actor(config: RunConfig, training: GRPOSettings, verl: VerlSettings) -> Tree:
    most_tokens = config.max_completion_tokens * config.game.rules.max_replies  # that a row may train on
    return {
        "ppo_mini_batch_size": verl.mini_batch_size or training.groups_per_step,
        "ppo_micro_batch_size_per_gpu": _micro_batch(config, verl),
        "clip_ratio_low": training.epsilon,
        "clip_ratio_high": training.epsilon_high,
        "loss_agg_mode": _AGGREGATION[training.loss_type],
        "loss_scale_factor": most_tokens if training.loss_type == "dr_grpo" else None,
        "use_kl_loss": training.beta > 0,
        "kl_loss_coef": training.beta,
        "kl_loss_type": "low_var_kl",
        "entropy_coeff": 0,
        "data_loader_seed": config.seed,
        "optim": _optimizer(training),
        "grad_clip": training.optimizer.max_grad_norm,
        "checkpoint": {"save_contents": ["model", "optimizer", "extra", "hf_model"]},
        "fsdp_config": {
            "param_offload": verl.offload,
            "optimizer_offload": verl.offload,
            "fsdp_size": verl.gpus_per_node if verl.nodes > 1 else -1,
            **_engine(config),
        },
    }


def _optimizer(training: GRPOSettings) -> Tree:
    optimizer = training.optimizer
    return {
        "lr": optimizer.learning_rate,
        "weight_decay": 0.0,
        "betas": list(ADAM_BETAS),
        "clip_grad": optimizer.max_grad_norm,
        "lr_scheduler_type": optimizer.schedule,
        "lr_warmup_steps": round(optimizer.warmup) if optimizer.warmup >= 1 else -1,
        "lr_warmup_steps_ratio": optimizer.warmup if optimizer.warmup < 1 else 0.0,
    }


def _engine(config: RunConfig) -> Tree:
    computed = {"fp32": "fp32", "bf16": "bf16", "auto": "bf16"}[config.model.precision]
    held = {"float32": "fp32", "bfloat16": "bf16", "auto": "bf16"}[config.model.dtype]
    precision = {"param_dtype": computed, "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
    return {"model_dtype": held, "mixed_precision": precision, "seed": config.seed}


def _critic(config: RunConfig, training: GRPOSettings, verl: VerlSettings, model: str) -> Tree:
    return {
        "model": _model(config, verl, model),
        "optim": {**_optimizer(training), "lr": verl.critic_learning_rate},
        "grad_clip": training.optimizer.max_grad_norm,
        "ppo_micro_batch_size_per_gpu": _micro_batch(config, verl),
        "fsdp": {"param_offload": verl.offload, "optimizer_offload": verl.offload, **_engine(config)},
    }


def _rollout(config: RunConfig, training: GRPOSettings, verl: VerlSettings, run: Path) -> Tree:
    return {
        "name": verl.rollout,
        "n": training.group_size,
        "temperature": training.temperature,
        "top_p": 1.0,
        "seed": config.seed,
        "tensor_model_parallel_size": verl.tensor_parallel,
        "gpu_memory_utilization": verl.memory_fraction,
        "log_prob_micro_batch_size_per_gpu": _micro_batch(config, verl),
        "calculate_log_probs": True,
        "val_kwargs": {"temperature": 0, "do_sample": False, "n": 1},
        "agent": {
            "default_agent_loop": TOOL_AGENT if verl.tool else AGENT,
            "agent_loop_config_path": str(agent_file(run)),
        },
    }


def _trainer(config: RunConfig, training: GRPOSettings, verl: VerlSettings, run: Path) -> Tree:
    named = Tracking.named(run, config.report_project, None)
    # Two at least: verl removes the policy of the last checkpoint before the new one has its critic and counts.
    kept = max(2, training.save_total_limit) if training.save_total_limit else None
    return {
        "nnodes": verl.nodes,
        "n_gpus_per_node": verl.gpus_per_node,
        "total_training_steps": None if verl.epochs else training.steps,
        "total_epochs": verl.epochs or training.steps,
        "save_freq": training.save_steps or 1_000_000_000,  # more steps than any training has: the last one alone
        "max_actor_ckpt_to_keep": kept,
        "max_critic_ckpt_to_keep": kept,
        "test_freq": verl.validate_every_steps or -1,
        "val_before_train": verl.validate_every_steps > 0,
        "logger": ["console", *config.trackers],
        "log_val_generations": 8 if config.trackers else 0,  # validation games on the dashboards of trackers
        "project_name": named.project or "wordle-rl",
        "experiment_name": named.run,
        "default_local_dir": str(checkpoints(run)),
        "validation_data_dir": str(run / "verl" / "validation"),
        "resume_mode": "auto",
    }


def _micro_batch(config: RunConfig, verl: VerlSettings) -> int:
    # Games per pass of a GPU.
    groups = verl.mini_batch_size or config.grpo.groups_per_step
    return config.model.micro_batch_size or groups * config.grpo.group_size // (verl.nodes * verl.gpus_per_node)


def data_file(run: Path, split: str) -> Path:
    """Return the parquet file of the `train` or `val` secrets of a run."""
    return run / "verl" / f"{split}.parquet"


def checkpoints(run: Path) -> Path:
    """Return the directory of verl's checkpoints of a run."""
    return run / "verl" / "checkpoints"


def agent_file(run: Path) -> Path:
    """Return the file that names our agent loops to verl."""
    return run / "verl" / "agent_loops.json"


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    # The free entries of two mappings are one value, since verl's config does not know their names.
    for name, value in tree.items():
        if isinstance(value, dict) and name not in ("apply_chat_template_kwargs", "mixed_precision"):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _written(value: Any) -> str:
    """A value as Hydra reads it.

    Examples:
        >>> _written(None), _written(True), _written("a b"), _written({"x": ["y", 1]})
        ('null', 'true', '"a b"', '{x:["y",1]}')
    """
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{_written(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    return json.dumps(value)
