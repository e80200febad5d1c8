"""Laws of the translation: verl takes our config, and settings of ours arrive in it."""

from pathlib import Path

import pytest

pytest.importorskip("verl")

from omegaconf import OmegaConf
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config
from verl_games import verl_run

from wordle_rl.config.base import ConfigError
from wordle_rl.config.files import load_config
from wordle_rl.config.run import RunConfig
from wordle_rl.trainers.verl.settings import VerlSettings, check_settings, translated
from wordle_rl.trainers.verl.trainer import compose

ROOT = Path(__file__).parents[3]
RECIPE = ROOT / "src" / "wordle_rl" / "config" / "presets" / "qwen2.5-0.5b.toml"
EIGHT = VerlSettings(
    gpus_per_node=8, tensor_parallel=2, memory_fraction=0.7, offload=True, epochs=15, mini_batch_size=8,
    max_prompt_tokens=1024, max_response_tokens=3072, validate_every_steps=20,
)  # fmt: skip


def composed(config: RunConfig, verl: VerlSettings, model: str = "Qwen/Qwen2.5-0.5B-Instruct"):
    check_settings(config, verl)
    return compose(translated(config, verl, Path("/runs/a run"), model))


@pytest.fixture(scope="module")
def eight():
    return composed(load_config(RECIPE, {("report_to",): ("wandb",)}), EIGHT)


def test_verl_accepts_the_config(eight) -> None:
    validate_config(eight, use_reference_policy=need_reference_policy(eight), use_critic=need_critic(eight))
    actor = omega_conf_to_dataclass(eight.actor_rollout_ref.actor)
    assert (actor.strategy, actor.clip_ratio_high, actor.loss_agg_mode) == ("fsdp", 0.28, "token-mean")


ARRIVES = [
    ({}, {"epochs": 0}, {"trainer.total_training_steps": 60}),
    ({}, {"mini_batch_size": 0}, {"actor_rollout_ref.actor.ppo_mini_batch_size": 512}),
    ({}, {"validate_every_steps": 0}, {"trainer.test_freq": -1, "trainer.val_before_train": False}),
    ({}, {"tool": True}, {"actor_rollout_ref.rollout.agent.default_agent_loop": "wordle_tool"}),
    ({}, {"overrides": ("trainer.project_name=mine",)}, {"trainer.project_name": "mine"}),
    ({"grpo": {"beta": 0.0}}, {}, {"actor_rollout_ref.actor.use_kl_loss": False}),
    ({"grpo": {"credit": "turn"}}, {}, {"algorithm.adv_estimator": "wordle_turn"}),
    ({"grpo": {"loss_type": "grpo"}}, {}, {"actor_rollout_ref.actor.loss_agg_mode": "seq-mean-token-mean"}),
    ({"grpo": {"save_steps": 0}}, {}, {"trainer.save_freq": 1_000_000_000}),  # after the last step alone
    ({}, {}, {"trainer.max_actor_ckpt_to_keep": 2, "actor_rollout_ref.actor.optim.betas": [0.9, 0.95]}),
    ({"grpo": {"save_total_limit": 0}}, {}, {"trainer.max_actor_ckpt_to_keep": None}),
    ({"grpo": {"save_total_limit": 5}}, {}, {"trainer.max_critic_ckpt_to_keep": 5}),
    ({}, {}, {"algorithm.rollout_correction.rollout_is_threshold": 2.0}),
    ({"grpo": {"max_importance_ratio": 7.0}}, {}, {"algorithm.rollout_correction.rollout_is_threshold": 7.0}),
    ({"grpo": {"max_importance_ratio": 0.0}}, {}, {"algorithm.rollout_correction.rollout_is": None}),
    ({"grpo": {"temperature": 0.8}}, {}, {"actor_rollout_ref.rollout.temperature": 0.8}),
    (
        {"report_to": ["wandb"], "report_project": "gsm8k/first"},
        {},
        {
            "trainer.project_name": "gsm8k",
            "trainer.experiment_name": "first",
            "trainer.logger": ["console", "wandb"],
            "trainer.log_val_generations": 8,
        },
    ),
    ({}, {"activation_offload": True}, {"actor_rollout_ref.model.enable_activation_offload": True}),
    (
        {"model": {"dtype": "bfloat16"}},
        {},
        {f"actor_rollout_ref.{part}.fsdp_config.model_dtype": "bf16" for part in ("actor", "ref")},
    ),
    ({"seed": 5}, {}, {"data.seed": 5, "actor_rollout_ref.rollout.seed": 5}),
    (
        {"model": {"template_kwargs": {"enable_thinking": False}}},
        {},
        {"data.apply_chat_template_kwargs": {"enable_thinking": False}},
    ),
]


def changed(changes: dict) -> RunConfig:
    """The recipe with some settings changed."""
    options = {}
    for section, values in changes.items():
        options |= {(section, n): v for n, v in values.items()} if isinstance(values, dict) else {(section,): values}
    return load_config(RECIPE, options)


@pytest.mark.parametrize(("changes", "verl", "expected"), ARRIVES)
def test_a_setting_arrives(changes, verl, expected) -> None:
    config = composed(changed(changes), EIGHT.model_copy(update=verl))
    for place, value in expected.items():
        found = OmegaConf.select(config, place)
        assert (OmegaConf.to_container(found) if OmegaConf.is_config(found) else found) == value


def test_ppo_trains_a_critic_of_the_same_model(tmp_path, word_directory) -> None:
    model = verl_run(tmp_path / "run", word_directory) / "sft"  # verl reads its config
    changes = {("grpo", "credit"): "turn", ("grpo", "beta"): 0.0, ("model", "attn_implementation"): "eager"}
    ppo = EIGHT.model_copy(update={"estimator": "ppo", "critic_learning_rate": 2e-5})
    found = composed(load_config(RECIPE, changes), ppo, str(model))
    assert found.algorithm.adv_estimator == "gae"
    assert need_critic(found)
    assert found.critic.model.path == found.actor_rollout_ref.model.path
    assert found.critic.optim.lr == 2e-5
    assert found.critic.ppo_mini_batch_size == found.actor_rollout_ref.actor.ppo_mini_batch_size == 8
    assert found.critic.fsdp.param_offload is found.critic.fsdp.optimizer_offload is True
    for model in (found.critic.model, found.actor_rollout_ref.model):
        assert model.override_config.attn_implementation == "eager"
    validate_config(found, use_reference_policy=False, use_critic=True)


def test_several_machines_join_ray_and_shard_within_each() -> None:
    config = load_config(RECIPE)
    one = composed(config, EIGHT.model_copy(update={"gpus_per_node": 1, "tensor_parallel": 1, "mini_batch_size": 512}))
    many = composed(config, EIGHT.model_copy(update={"nodes": 4, "mini_batch_size": 512}))
    assert OmegaConf.select(one, "ray_kwargs.ray_init.address") is None
    assert many.ray_kwargs.ray_init.address == "auto"
    assert (many.trainer.nnodes, many.actor_rollout_ref.actor.fsdp_config.fsdp_size) == (4, 8)


# --- refusals: what verl would not follow is told in one line, with its fix, before anything is loaded ---


REFUSED = [
    ({("stages",): ("dpo",)}, {}, "stages"),
    ({("stages",): ("grpo", "expert_iteration")}, {}, "stages"),
    ({("grpo", "outside_rate"): 0.1, ("grpo", "reward", "weights"): {"quick_regret": -1.0}}, {}, "grpo.outside_rate"),
    ({("grpo", "updates_per_batch"): 2, ("max_batch_size",): 64}, {}, "grpo.updates_per_batch.*max_batch_size"),
    ({}, {"estimator": "ppo"}, "grpo.credit"),
    ({("grpo", "credit"): "turn", ("grpo", "mask_overlong"): True}, {}, "grpo.mask_overlong"),
    ({("grpo", "credit"): "turn", ("grpo", "mask_overlong"): True}, {"estimator": "ppo"}, "grpo.mask_overlong"),
    ({("grpo", "temperature"): 0.005}, {}, "grpo.temperature"),
    ({}, {"mini_batch_size": 100}, "--mini-batch-size 100"),
    ({("model", "micro_batch_size"): 4096}, {"gpus_per_node": 8, "mini_batch_size": 8}, "model.micro_batch_size"),
    ({}, {"gpus_per_node": 4, "tensor_parallel": 3}, "--tensor-parallel 3"),
    ({}, {"gpus_per_node": 3}, "3 GPUs"),
    ({}, {"max_response_tokens": 512}, "--max-response-tokens 512"),
]
"""Settings of a run and of verl, and what a refusal names; each rule of `VERL` has its row in config/test_refusals."""


@pytest.mark.parametrize(("options", "verl", "named"), REFUSED)
def test_what_verl_does_not_follow_is_refused_in_one_line(options, verl, named) -> None:
    config = load_config(RECIPE, options)
    with pytest.raises(ConfigError, match=named) as refused:
        check_settings(config, VerlSettings(**verl))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("verl", [{}, {"gpus_per_node": 8, "mini_batch_size": 8}, {"nodes": 4, "gpus_per_node": 8}])
def test_the_recipe_is_accepted(verl) -> None:
    check_settings(load_config(RECIPE), VerlSettings(**verl))
