"""Laws of capabilities: what a learner cannot do is refused by the name of the setting, the rest is taken."""

import pytest

from wordle_rl.config import ConfigError, RunConfig
from wordle_rl.train.capabilities import ALL, check_capabilities, needs

ASKED = [
    ({"model": {"path": "somewhere", "lora": {"rank": 4}}}, "adapters", "model.lora.rank"),
    (
        {"model": {"path": "somewhere", "lora": {"rank": 4}, "load_in_4bit": True}},
        "four bits",
        "model.load_in_4bit",
    ),
    ({"model": {"gradient_checkpointing": True}}, "gradient checkpointing", "model.gradient_checkpointing"),
    ({"model": {"precision": "bf16"}}, "autocast", "model.precision"),
    ({"model": {"attn_implementation": "sdpa"}}, "kernels", "model.attn_implementation"),
    ({"model": {"path": "somewhere", "compile": True}}, "compile", "model.compile"),
    ({"grpo": {"engine": "vllm"}}, "vllm", "grpo.engine"),
    ({"eval": {"engine": "vllm"}}, "vllm", "eval.engine"),
]


@pytest.mark.parametrize(("changes", "capability", "setting"), ASKED, ids=[setting for *_, setting in ASKED])
def test_a_setting_asks_for_its_capability(changes, capability, setting) -> None:
    config = RunConfig(**changes)
    assert needs(config)[capability][0] == setting
    check_capabilities(config, "it", ALL)
    with pytest.raises(ConfigError, match=setting):
        check_capabilities(config, "it", ALL - {capability})


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"algorithm": "dpo", "grpo": {"engine": "vllm"}},  # a stage that does not run asks for nothing
        {"model": {"dtype": "bfloat16", "precision": "bf16"}},  # weights are computed with as they are held
        {"report_to": ("tensorboard",), "grpo": {"max_importance_ratio": 2.0, "save_steps": 1, "save_total_limit": 2}},
    ],
)
def test_other_settings_ask_for_nothing(changes) -> None:
    assert needs(RunConfig(**changes)) == {}


@pytest.mark.parametrize("algorithm", ["grpo", "expert_iteration", "dpo", "distill"])
def test_mlx_takes_every_algorithm(algorithm) -> None:
    pytest.importorskip("mlx")
    from wordle_rl.mlx.learner import MLXLearner

    check_capabilities(RunConfig(algorithm=algorithm), "MLX", MLXLearner.capabilities)
