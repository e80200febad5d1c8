"""Laws of refusals: what verl would not follow is told in one line, with its fix, before anything is loaded."""

from pathlib import Path

import pytest

from wordle_rl.config import ConfigError, load_config
from wordle_rl.trainers.verl.settings import VerlSettings, check_settings

RECIPE = Path(__file__).parents[3] / "src" / "wordle_rl" / "config" / "presets" / "qwen2.5-0.5b.toml"

REFUSED = [
    ({("algorithm",): "dpo"}, {}, "algorithm"),
    ({("grpo", "steps"): 0, ("sft", "epochs"): 1.0}, {}, "algorithm"),
    ({("game", "shape"): "state"}, {}, "game.shape"),
    ({("grpo", "turn_candidates"): 2, ("grpo", "credit"): "guess", ("grpo", "scale_advantages"): False}, {}, "turn"),
    ({("rl", "outside_rate"): 0.1, ("rl", "reward", "weights"): {"quick_regret": -1.0}}, {}, "rl.outside_rate"),
    ({("traces", "rl_only_fraction"): 0.2}, {}, "traces.rl_only_fraction"),
    ({("grpo", "prioritized_fraction"): 1.0}, {}, "grpo.prioritized_fraction"),
    ({("grpo", "probe_every_steps"): 5}, {}, "grpo.probe_every_steps"),
    ({("grpo", "max_refills"): 2}, {}, "grpo.max_refills"),
    ({("rl", "reward", "preset"): "shaped_curriculum"}, {}, "rl.reward"),
    ({("max_batch_size",): 64}, {}, "max_batch_size"),
    ({}, {"estimator": "ppo"}, "grpo.credit"),
    ({("grpo", "credit"): "wordle_rl.train.advantages:turn_advantages"}, {}, "grpo.credit"),
    ({("grpo", "credit"): "turn", ("grpo", "mask_overlong"): True}, {}, "grpo.mask_overlong"),
    ({("grpo", "validate_every_steps"): 5}, {}, "--validate-every-steps"),
    ({("grpo", "engine"): "vllm"}, {}, "grpo.engine"),
    ({("rl", "optimizer", "muon_learning_rate"): 0.02}, {}, "rl.optimizer.muon_learning_rate"),
    ({("rl", "optimizer", "schedule"): "linear"}, {}, "rl.optimizer.schedule"),
    ({("model", "lora", "rank"): 8}, {}, "model.lora"),
    ({("model", "chat_template"): "lines"}, {}, "model.chat_template"),
    ({}, {"mini_batch_size": 100}, "--mini-batch-size 100"),
    ({("model", "micro_batch_size"): 4096}, {"gpus_per_node": 8, "mini_batch_size": 8}, "model.micro_batch_size"),
    ({}, {"gpus_per_node": 4, "tensor_parallel": 3}, "--tensor-parallel 3"),
    ({}, {"gpus_per_node": 3}, "3 GPUs"),
    ({}, {"max_response_tokens": 512}, "--max-response-tokens 512"),
]


@pytest.mark.parametrize(("options", "verl", "named"), REFUSED)
def test_what_verl_does_not_follow_is_refused_in_one_line(options, verl, named) -> None:
    config = load_config(RECIPE, options)
    with pytest.raises(ConfigError, match=named) as refused:
        check_settings(config, VerlSettings(**verl))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("verl", [{}, {"gpus_per_node": 8, "mini_batch_size": 8}, {"nodes": 4, "gpus_per_node": 8}])
def test_the_recipe_is_accepted(verl) -> None:
    check_settings(load_config(RECIPE), VerlSettings(**verl))
