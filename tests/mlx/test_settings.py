"""Laws of settings on MLX, which need no Mac: what only torch can do is refused by the name of the setting."""

import pytest

from wordle_rl.config.base import ConfigError
from wordle_rl.config.run import RunConfig
from wordle_rl.mlx import check_settings


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        ({"model": {"precision": "bf16"}}, "model.precision"),
        ({"model": {"attn_implementation": "sdpa"}}, "model.attn_implementation"),
        ({"model": {"path": "somewhere", "compile": True}}, "model.compile"),
        ({"grpo": {"engine": "vllm"}}, "grpo.engine"),
        ({"eval": {"engine": "vllm"}}, "eval.engine"),
    ],
)
def test_what_only_torch_can_do_is_refused_by_its_setting(changes, setting) -> None:
    with pytest.raises(ConfigError, match=setting):
        check_settings(RunConfig(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"stages": ("sft", "expert_iteration", "grpo", "distill")},
        {"stages": ("sft", "dpo"), "grpo": {"engine": "vllm"}},  # a stage that does not run asks for nothing
        {"model": {"dtype": "bfloat16", "precision": "bf16"}},  # weights are computed with as they are held
        {"model": {"path": "somewhere", "gradient_checkpointing": True, "lora": {"rank": 4}, "load_in_4bit": True}},
    ],
)
def test_every_stage_and_the_rest_of_the_settings_are_taken(changes) -> None:
    check_settings(RunConfig(**changes))
