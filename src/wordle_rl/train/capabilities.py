"""Capabilities of learners, and the check that a run asks for no more.

Every learner runs every algorithm. A capability is a feature that depends on the library underneath.
"""

from __future__ import annotations

from wordle_rl.config import ConfigError, GRPOTraining, RunConfig
from wordle_rl.runs.distributed import num_processes

ALL = frozenset(
    {"adapters", "four bits", "gradient checkpointing", "autocast", "kernels", "compile", "vllm", "processes"}
)
"""All capabilities."""


def needs(config: RunConfig) -> dict[str, tuple[str, str]]:
    """Map each capability that a run needs to the settings that ask for it, and to the fix if it is missing."""
    model, training = config.model, config.training
    vllm = ["grpo.engine"] if isinstance(training, GRPOTraining) and training.plays_by_vllm else []
    vllm += ["eval.engine"] if config.eval.engine == "vllm" else []
    processes = num_processes()
    asked = {
        "adapters": (["model.lora.rank"] * (model.lora.rank > 0), "train all weights"),
        "four bits": (["model.load_in_4bit"] * model.load_in_4bit, "leave it out"),
        "gradient checkpointing": (["model.gradient_checkpointing"] * model.gradient_checkpointing, "leave it out"),
        "autocast": (
            ["model.precision"] * (model.precision == "bf16" and model.dtype == "float32"),
            'leave it out, or set model.dtype to "bfloat16"',
        ),
        "kernels": (["model.attn_implementation"] * (model.attn_implementation is not None), "leave it out"),
        "compile": (["model.compile"] * model.compile, "leave it out"),
        "vllm": (vllm, "leave it out"),
        "processes": ([f"a launch of {processes} processes"] * (processes > 1), "start one"),
    }
    return {name: (" and ".join(settings), fix) for name, (settings, fix) in asked.items() if settings}


def check_capabilities(config: RunConfig, name: str, capabilities: frozenset[str]) -> None:
    """Check that a learner can do what a run asks for.

    Args:
        config: The run.
        name: Name of the learner's library.
        capabilities: What the learner can do.

    Raises:
        ConfigError: If it cannot; one line names each setting with its fix.
    """
    lacking = [asked for capability, asked in needs(config).items() if capability not in capabilities]
    if lacking:
        problems = "; ".join(f"{settings}: {fix}" for settings, fix in lacking)
        raise ConfigError(f"{name} does not support {problems}")
