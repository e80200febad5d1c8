"""Laws of refusals: what MLX would not follow is named in one line, with its fix, before anything is written."""

import pytest

pytest.importorskip("mlx")

from wordle_rl.config import ConfigError, RunConfig
from wordle_rl.mlx.refusals import check_settings

REFUSED = [
    ({"algorithm": "dpo"}, 'algorithm: set it to "grpo"'),
    ({"grpo": {"loss_type": "bnpo"}}, 'grpo.loss_type "bnpo": a step has one mean over all its tokens; use "dapo"'),
    ({"grpo": {"engine": "vllm"}}, "grpo.engine: MLX plays; leave it out"),
    (
        {"grpo": {"max_importance_ratio": 2.0}},
        "grpo.max_importance_ratio: ratios to the sampler are clipped",
    ),
    ({"rl": {"sampling": {"top_p": 0.9}}}, "rl.sampling.top_p: log-probabilities are of all tokens; set it to 1"),
    ({"grpo": {"save_steps": 1, "save_total_limit": 2}}, "grpo.save_total_limit: models of checkpoints are not kept"),
    ({"report_to": ("wandb",)}, "report_to: metrics.jsonl holds all figures; leave it out"),
    ({"model": {"attn_implementation": "sdpa"}}, "model.attn_implementation: it has its own; leave it out"),
    ({"eval": {"engine": "vllm"}}, 'eval.engine: MLX plays; leave it out, or set it to "mlx"'),
    ({"sft": {"precision": "bf16"}}, 'sft.precision "bf16": weights are computed with as they are held'),
    ({"rl": {"precision": "bf16"}}, 'rl.precision "bf16": weights are computed with as they are held'),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=[message.split(":")[0] for _, message in REFUSED])
def test_what_would_be_ignored_is_refused(changes, message) -> None:
    with pytest.raises(ConfigError) as refusal:
        check_settings(RunConfig(backend="mlx", **changes))
    assert str(refusal.value).startswith(f"MLX does not follow {message}")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"grpo": {"epsilon": 0.1, "epsilon_high": 0.3, "beta": 0.04, "validate_every_steps": 5}},
        {"eval": {"engine": "mlx"}},
        {"model": {"dtype": "bfloat16"}, "sft": {"precision": "bf16"}},
        {"sft": {"optimizer": {"name": "muon"}}},
    ],
)
def test_what_mlx_follows_is_taken(changes) -> None:
    check_settings(RunConfig(backend="mlx", **changes))


def test_a_launch_of_several_processes_is_refused(monkeypatch) -> None:
    monkeypatch.setattr("wordle_rl.mlx.refusals.num_processes", lambda: 2)
    with pytest.raises(ConfigError, match="a launch of 2 processes: start one"):
        check_settings(RunConfig(backend="mlx"))
