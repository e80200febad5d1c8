"""The process on Ray that drives a training: verl's task runner with our trainer and credit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ray
from omegaconf import DictConfig, OmegaConf


@ray.remote
class WordleTaskRunner:
    """Builds the trainer on some node of the cluster and runs it to its end."""

    def run(self, config: DictConfig) -> None:
        """Train.

        Args:
            config: verl's whole config.
        """
        import transfer_queue as tq
        from verl.trainer.ppo.v1 import AgentLoopManagerTQ
        from verl.utils.logging_utils import configure_verl_logging

        import wordle_rl.trainers.verl.advantages  # noqa: F401  # registers the estimators
        from wordle_rl.trainers.verl.trainer import WordleTrainer

        configure_verl_logging()
        config.transfer_queue.enable = True
        OmegaConf.resolve(config)
        tq.init(config.transfer_queue)
        try:
            trainer = WordleTrainer(config)
            trainer.init()
            loops = AgentLoopManagerTQ.create(
                config=config,
                llm_client=trainer.get_llm_client(),
                teacher_client=trainer.get_teacher_client(),
                reward_loop_worker_handles=trainer.get_reward_handles(),
            )
            trainer.fit(loops)
            trainer.logger.finish(exit_code=0)
        finally:
            tq.close()


def compose(layout: str, overrides: list[str]) -> DictConfig:
    """verl's config under one of our layouts.

    Args:
        layout: Name of a file of `layouts/`.
        overrides: Hydra overrides, last ones count.

    Raises:
        hydra.errors.HydraException: If an override names what verl does not have.
    """
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir

    search = "hydra.searchpath=[pkg://verl.trainer.config]"
    with initialize_config_dir(str(Path(__file__).parent / "layouts"), version_base=None):
        return hydra_compose(layout, [search, *overrides])


def train(config: DictConfig) -> None:
    """Check a config as verl does, start or join Ray, and train to the end.

    Raises:
        ValueError: If verl finds settings that contradict each other.
    """
    from verl.trainer.main_ppo import run_ppo
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config
    from verl.utils.device import auto_set_device

    auto_set_device(config)
    validate_config(config=config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    runner: Any = WordleTaskRunner
    run_ppo(config, task_runner_class=runner)
