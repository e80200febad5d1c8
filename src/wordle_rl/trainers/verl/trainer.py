"""The process on Ray that drives a training: verl's synchronous trainer, which also writes what our reports read.

verl logs its own figures to the trackers of its config; the figures of games and every component of the reward are
added to them, as `wordle/...`.
"""

from __future__ import annotations

import json
import pickle
import statistics
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import ray
import torch
import transfer_queue as tq
from hydra import compose as hydra_compose
from hydra import initialize_config_module
from omegaconf import DictConfig, OmegaConf
from transfer_queue import KVBatchMeta
from transformers import AutoModelForTokenClassification, PreTrainedConfig, PreTrainedModel
from verl.trainer.main_ppo import run_ppo
from verl.trainer.ppo.core_algos import register_adv_est
from verl.trainer.ppo.utils import Role, need_critic, need_reference_policy
from verl.trainer.ppo.v1 import AgentLoopManagerTQ
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils import model as verl_models
from verl.utils.config import validate_config
from verl.utils.device import auto_set_device
from verl.utils.logging_utils import configure_verl_logging
from verl.workers.engine_workers import TrainingWorker

from wordle_rl.config.base import ConfigError
from wordle_rl.data.game_record import GameRecord
from wordle_rl.runs import Run, read_jsonl
from wordle_rl.runs.provenance import resident_memory_gib
from wordle_rl.train.advantages import find_credit
from wordle_rl.train.scored_games import Scored, measured
from wordle_rl.trainers.verl.play import run_games
from wordle_rl.trainers.verl.settings import CREDIT


def compose(overrides: list[str]) -> DictConfig:
    """Return verl's config under Hydra overrides, the last of which count."""
    with initialize_config_module("verl.trainer.config", version_base=None):
        return hydra_compose("ppo_trainer", overrides)


def train(config: DictConfig) -> None:
    """Check a config as verl does, start or join Ray, and train to the end."""
    auto_set_device(config)
    validate_config(config=config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    run_ppo(config, task_runner_class=WordleTaskRunner)


@ray.remote
class WordleTaskRunner:
    """Builds the trainer on some node of the cluster and runs it to its end. verl's own knows its own trainers only."""

    def run(self, config: DictConfig) -> None:
        """Train under verl's whole config."""
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


OUR_NAMES: Mapping[str, str] = {
    "actor/pg_loss": "loss",
    "actor/grad_norm": "grad_norm",
    "actor/entropy": "entropy",
    "actor/lr": "learning_rate",
    "actor/kl_loss": "kl",
    "critic/vf_loss": "value_loss",
    "critic/score/mean": "reward",
    "timing_s/step": "step_time",
    "timing_s/gen": "seconds/rollout",
    "timing_s/update_actor": "seconds/train",
    "perf/cpu_memory_used_gb": "machine_memory_gib",
}
"""verl's figures that metrics.jsonl has too, and their names there."""


class WordleTrainer(PPOTrainerSync):
    """verl's trainer over our agent loop. Its config has the run's directory as `wordle.run_directory`."""

    def __init__(self, config: DictConfig) -> None:
        super().__init__(config)
        self._run = Run(Path(config.wordle.run_directory))
        self._games = run_games(self._run.directory, config.actor_rollout_ref.model.path)
        self._num_wins: int | None = None

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        if Role.Critic in self.role_worker_mapping:
            self.role_worker_mapping[Role.Critic] = ray.remote(CriticWorker)

    def _compute_metrics(
        self, batch: KVBatchMeta, metrics: dict[str, Any], timing_raw: dict[str, float], global_steps: int, epoch: int
    ) -> None:
        super()._compute_metrics(batch, metrics, timing_raw, global_steps=global_steps, epoch=epoch)
        games = self._played(batch)
        found = measured(games, self._games.context.words)
        if self._num_wins is None:
            self._num_wins = wins_before(self._run, global_steps)
        self._num_wins += found.num_wins
        metrics.update({f"wordle/{name}": value for name, value in found.means.items()})
        theirs = {ours: float(metrics[name]) for name, ours in OUR_NAMES.items() if name in metrics}
        row = {
            **theirs,
            **found.means,
            "reward_std": statistics.pstdev(game.reward.total for game in games),
            "cumulative_wins": self._num_wins,
            "resident_memory_gib": resident_memory_gib(),
        }
        self._run.append("metrics.jsonl", {"stage": "grpo", "step": global_steps, **row})
        num_shown = self._games.config.grpo.sample_games
        for game in games[:: max(1, len(games) // max(1, num_shown))][:num_shown]:
            row = GameRecord.of(game.trajectory.transcript, game.reward).to_row()
            self._run.append("games.jsonl", {"stage": "grpo", "step": global_steps, **row})
        secrets = sorted({game.trajectory.transcript.secret for game in games})
        self._run.append("secrets.jsonl", {"stage": "grpo", "step": global_steps - 1, "process": 0, "secrets": secrets})

    def _played(self, batch: KVBatchMeta) -> list[Scored]:
        # Rows that only fill the batch up are no games.
        keys = [key for key, tag in zip(batch.keys, batch.tags, strict=True) if not tag.get("is_padding", False)]
        fields = tq.kv_batch_get(keys=keys, partition_id=batch.partition_id, select_fields=["extra_fields"])
        return [pickle.loads(each["scored"]) for each in fields.pop("extra_fields").tolist()]

    def _val_metrics_update(
        self,
        data_sources: Sequence[str],
        sample_uids: Sequence[str],
        reward_extra_infos_dict: dict[str, list[Any]],
        sample_turns: Sequence[int],
        expected_acc_counts: dict[tuple[str, str], int] | None = None,
    ) -> dict[str, float]:
        rows = [json.loads(game) for game in reward_extra_infos_dict["game"] if game is not None]
        for row in rows:
            self._run.append("games.jsonl", {"stage": "grpo/validation", "step": self.global_steps, **row})
        sampling = self.config.actor_rollout_ref.rollout.val_kwargs
        name = "greedy_win_rate" if sampling.temperature == 0 else "sampled_win_rate"
        win_rate = statistics.fmean(row["won"] for row in rows)
        self._run.append("metrics.jsonl", {"stage": "grpo/validation", "step": self.global_steps, name: win_rate})
        figures = super()._val_metrics_update(
            data_sources, sample_uids, reward_extra_infos_dict, sample_turns, expected_acc_counts
        )
        return {**figures, f"wordle/val/{name}": win_rate}


def wins_before(run: Run, step: int) -> int:
    """Return the training games won before a step, in the part of the run that a resumed training keeps."""
    path = run.directory / "metrics.jsonl"
    rows = read_jsonl(path) if path.is_file() else []
    earlier = [row["cumulative_wins"] for row in rows if row["stage"] == "grpo" and row["step"] < step]
    return earlier[-1] if earlier else 0


class CriticWorker(TrainingWorker):
    """verl's worker of a critic, with the attention of the run's config; verl's own takes FlashAttention 2 alone."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        verl_models.load_valuehead_model = load_value_model


def load_value_model(
    local_path: str, torch_dtype: torch.dtype, model_config: PreTrainedConfig, trust_remote_code: bool
) -> PreTrainedModel:
    """Load a policy's weights under a new head of one output, with the attention of `model_config`."""
    if trust_remote_code:
        raise ConfigError("the critic's model may not run code of its own; leave trust_remote_code out of --overrides")
    model = AutoModelForTokenClassification.from_pretrained(
        local_path, dtype=torch_dtype, config=model_config, trust_remote_code=False, use_safetensors=True
    )
    assert isinstance(model, PreTrainedModel)
    return model


# --- turn and guess credit as advantage estimators of verl, registered when this is imported ----------------------
#
# verl's own estimators know one number a game. These find a game's turns in the loss mask, whose runs of ones they are,
# and hand the rewards of each group to `train.advantages`, so that both trainers credit turns by the same code.


def turns_of(loss_mask: Sequence[float]) -> list[tuple[int, int]]:
    """Return the begin and end of each run of ones.

    Examples:
        >>> turns_of([0, 1, 1, 0, 0, 1])
        [(1, 3), (5, 6)]
    """
    padded = [0, *loss_mask, 0]
    edges = [place for place, (before, after) in enumerate(pairwise(padded)) if bool(before) != bool(after)]
    return list(zip(edges[::2], edges[1::2], strict=True))


def credited(
    credit: str, rewards: torch.Tensor, loss_mask: torch.Tensor, index: Sequence[Hashable], *, scale: bool
) -> torch.Tensor:
    """Return the advantage of every token, 0 off the mask.

    Args:
        credit: `turn`, `guess` or `game`.
        rewards: Reward of each token, shape (games, tokens). What stands on the tokens of a turn is the turn's.
        loss_mask: 1 on sampled tokens, same shape. Rows without any are padding.
        index: Group of each row.
        scale: Divide by the standard deviation of the group's rewards.
    """
    turns = [turns_of(row) for row in loss_mask.tolist()]
    groups: dict[Hashable, list[int]] = {}
    for row, group in enumerate(index):
        if turns[row]:
            groups.setdefault(group, []).append(row)
    advantages = torch.zeros_like(rewards)  # (games, tokens)
    for rows in groups.values():
        turn_rewards = [tuple(float(rewards[row, a:b].sum()) for a, b in turns[row]) for row in rows]
        for row, values in zip(rows, find_credit(credit)(turn_rewards, scale=scale), strict=True):
            for (start, stop), value in zip(turns[row], values, strict=True):
                advantages[row, start:stop] = value
    return advantages


def _estimator(credit: str) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    def estimate(
        token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: Any, config: Any = None, **_: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        # Returns, the second value, are only for a critic.
        scale = bool(config is not None and config.get("norm_adv_by_std_in_grpo", True))
        values = credited(credit, token_level_rewards, response_mask, list(index), scale=scale)
        return values, values

    return estimate


for _credit in ("turn", "guess"):  # credit by games is verl's own
    register_adv_est(CREDIT[_credit])(_estimator(_credit))
