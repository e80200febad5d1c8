"""Settings that MLX would not follow, each with what to do about it."""

from __future__ import annotations

from wordle_rl.config import ConfigError, Precision, RunConfig
from wordle_rl.runs.distributed import num_processes


def check_settings(config: RunConfig) -> None:
    """Refuse what would be ignored.

    Raises:
        ConfigError: In one line, each setting with its fix.
    """
    refused = {**_of_grpo(config), **_of_models(config)} if config.algorithm == "grpo" else _of_models(config)
    if problems := [problem for problem, there in refused.items() if there]:
        raise ConfigError(f"MLX does not follow {'; nor '.join(problems)}")


def _of_grpo(config: RunConfig) -> dict[str, bool]:
    grpo = config.grpo
    return {
        'grpo.loss_type "bnpo": a step has one mean over all its tokens; use "dapo"': grpo.loss_type == "bnpo",
        "grpo.save_total_limit: models of checkpoints are not kept; leave it out": grpo.save_total_limit != 0,
        "grpo.engine: MLX plays; leave it out": grpo.engine != "transformers",
        "grpo.max_importance_ratio: ratios to the sampler are clipped by epsilon; leave it out": (
            grpo.max_importance_ratio is not None
        ),
    }


def _of_models(config: RunConfig) -> dict[str, bool]:
    model, rl = config.model, config.rl
    return {
        'algorithm: set it to "grpo"': config.algorithm != "grpo",
        "rl.sampling.top_p: log-probabilities are of all tokens; set it to 1": rl.sampling.top_p < 1,
        "report_to: metrics.jsonl holds all figures; leave it out": bool(config.report_to),
        "model.attn_implementation: it has its own; leave it out": model.attn_implementation is not None,
        "model.liger_kernels: it has its own; leave it out": model.liger_kernels,
        'eval.engine: MLX plays; leave it out, or set it to "mlx"': (
            "engine" in config.eval.model_fields_set and config.eval.engine != "mlx"
        ),
        f"a launch of {num_processes()} processes: start one": num_processes() > 1,
        **_of_precision("sft.precision", config.sft.precision, config),
        **_of_precision("rl.precision", config.training.precision, config),
    }


def _of_precision(name: str, precision: Precision, config: RunConfig) -> dict[str, bool]:
    """A pass computes in the type that the weights are held in."""
    fix = 'weights are computed with as they are held; leave it out, or set model.dtype to "bfloat16"'
    return {f'{name} "bf16": {fix}': precision == "bf16" and config.model.dtype == "float32"}
