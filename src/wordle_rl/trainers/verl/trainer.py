"""verl's synchronous trainer, which also writes what our reports read: metrics, games of training, games of validation.

verl logs its own figures to the trackers of its config; the figures of games and every component of the reward are
added to them, as `wordle/...`.
"""

from __future__ import annotations

import json
import pickle
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ray
import transfer_queue as tq
from omegaconf import DictConfig
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.utils import Role
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from wordle_rl.data.game_record import GameRecord
from wordle_rl.runs import Run, read_jsonl
from wordle_rl.runs.provenance import resident_memory_gib
from wordle_rl.train.scored_games import Scored, measured
from wordle_rl.trainers.verl.critic import CriticWorker
from wordle_rl.trainers.verl.play import RunGames, run_games

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
    """verl's trainer over our agent loop.

    Args:
        config: verl's, with the run's directory as `wordle.run_directory`.
    """

    def __init__(self, config: DictConfig) -> None:
        super().__init__(config)
        self._run = Run(Path(config.wordle.run_directory))
        self._games: RunGames = run_games(self._run.directory, config.actor_rollout_ref.model.path)
        self._num_wins: int | None = None

    def _init_resource_pool_mgr(self) -> None:
        """verl's processes, with our worker in the place of its critic."""
        super()._init_resource_pool_mgr()
        if Role.Critic in self.role_worker_mapping:
            self.role_worker_mapping[Role.Critic] = ray.remote(CriticWorker)

    def _compute_metrics(
        self, batch: KVBatchMeta, metrics: dict[str, Any], timing_raw: dict[str, float], global_steps: int, epoch: int
    ) -> None:
        """verl's figures of a step, and ours of its games."""
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
        num_shown = self._games.training.sample_games
        for game in games[:: max(1, len(games) // max(1, num_shown))][:num_shown]:
            row = GameRecord.of(game.trajectory.transcript, game.reward).to_row()
            self._run.append("games.jsonl", {"stage": "grpo", "step": global_steps, **row})
        secrets = sorted({game.trajectory.transcript.secret for game in games})
        self._run.append("secrets.jsonl", {"stage": "grpo", "step": global_steps - 1, "process": 0, "secrets": secrets})

    def _played(self, batch: KVBatchMeta) -> list[Scored]:
        """The games of a step; rows that only fill the batch up are left out."""
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
        """verl's figures of a validation; its games go to games.jsonl, every one of them."""
        rows = [json.loads(game) for game in reward_extra_infos_dict["game"] if game is not None]
        for row in rows:
            self._run.append("games.jsonl", {"stage": "validation", "step": self.global_steps, **row})
        sampling = self.config.actor_rollout_ref.rollout.val_kwargs
        name = "greedy_win_rate" if sampling.temperature == 0 else "sampled_win_rate"
        win_rate = statistics.fmean(row["won"] for row in rows)
        self._run.append("metrics.jsonl", {"stage": "validation", "step": self.global_steps, name: win_rate})
        figures = super()._val_metrics_update(
            data_sources, sample_uids, reward_extra_infos_dict, sample_turns, expected_acc_counts
        )
        return {**figures, f"wordle/val/{name}": win_rate}


def wins_before(run: Run, step: int) -> int:
    """Training games won before a step, in the part of the run that a resumed training keeps."""
    path = run.directory / "metrics.jsonl"
    rows = read_jsonl(path) if path.is_file() else []
    earlier = [row["cumulative_wins"] for row in rows if row["stage"] == "grpo" and row["step"] < step]
    return earlier[-1] if earlier else 0
