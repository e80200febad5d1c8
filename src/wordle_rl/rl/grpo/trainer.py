"""TRL's `GRPOTrainer` with advantages per token, seconds per part of a step, the rollouts' record in checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from trl import GRPOTrainer

from wordle_rl.rl.grpo.micro_batches import by_length, trimmed
from wordle_rl.rl.grpo.replay import ReplayLoss
from wordle_rl.rl.grpo.rollouts import GroupRollouts
from wordle_rl.rl.grpo.vllm import send_weights
from wordle_rl.runs import BufferedRun, read_object, write_json
from wordle_rl.runs.distributed import is_first
from wordle_rl.training.trainer import STATE_FILE, WholeCheckpoints

_TOKEN_MEANS = {"entropy", "kl"}
_SUMS = {"cumulative_wins", "refilled_groups", "skipped_groups"}
_ROW_MEANS = {"grpo", "dr_grpo"}
"""TRL's losses that are means over rows."""


class WordleGRPOTrainer(WholeCheckpoints, GRPOTrainer):
    """`GRPOTrainer` with an advantage per token, micro-batches by length, and the seconds of each part of a step."""

    rollouts: GroupRollouts
    replay: ReplayLoss | None = None
    _buffered_inputs: Any  # TRL's micro-batches of the step
    _filled_share = 1.0  # share of a step's rows, of all processes, that are not blank

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        sent = {"seconds/weights": send_weights(self)} if self.use_vllm else {}
        started = time.perf_counter()
        compliance_before = self.rollouts.best_compliance
        output = super()._generate_and_score_completions(inputs)
        # TRL merges the extra lists of `rollout_func` into the inputs, row by row.
        width = output["completion_ids"].shape[1]
        rows = [row["token_advantages"] for row in inputs]
        padded = [row + [0.0] * (width - len(row)) for row in rows]
        output["advantages"] = torch.tensor(
            padded, dtype=torch.float32, device=output["completion_ids"].device
        )  # (B, T)
        filled = torch.tensor([self.rollouts.filled_share], device=output["completion_ids"].device)
        self._filled_share = float(self.accelerator.gather(filled).mean())
        metrics = self.rollouts.metrics | sent
        if limit := self.rollouts.settings.importance_cap:
            metrics |= self._correct_for_the_sampler(output, limit)
        metrics["seconds/logprobs"] = (
            time.perf_counter() - started - metrics["seconds/rollout"] - metrics["seconds/reward"]
        )
        if self.accelerator.num_processes > 1:
            metrics = self._bring_together(metrics)
            # All processes use one rubric, which may depend on the format compliance of all replies.
            self.rollouts.best_compliance = max(metrics["format_compliance"], compliance_before or 0.0)
        # TRL's own counts of tokens take each row for one reply, and blank rows for short replies.
        for name in [name for name in self._metrics["train"] if name.startswith("completions/")]:
            del self._metrics["train"][name]
        for name, value in metrics.items():
            self._metrics["train"][name].append(value)
        return dict(output)

    @torch.no_grad()
    def _correct_for_the_sampler(self, output: dict[str, Any], limit: float) -> dict[str, float]:
        """Multiply each token's advantage by its importance ratio: probability in training over that in sampling.

        Ratios are cut at `limit` (truncated importance sampling). A positive factor on the advantage is the same factor
        on the token's loss.
        """
        ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)  # (B, P + T)
        attention = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)
        width = output["completion_ids"].shape[1]
        batch_size = self.args.per_device_train_batch_size
        policy_logprobs = self._get_per_token_logps_and_entropies(
            self.model, ids, attention, width, batch_size=batch_size
        )[0]  # (B, T)
        learnt = (output["completion_mask"] * output["tool_mask"]).bool()
        ratio = (policy_logprobs - output["sampling_per_token_logps"]).where(learnt, 0.0).exp()
        output["advantages"] = output["advantages"] * ratio.clamp(max=limit)
        seen = ratio[learnt] if learnt.any() else torch.ones(1)
        return {"importance_ratio/mean": float(seen.mean()), "importance_ratio/max": float(seen.max())}

    def _get_per_token_logps_and_entropies(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        """TRL's, with position ids that skip left padding, as in sampling.

        Otherwise models with absolute positions train on shifted inputs, and others get rounding noise in 16 bits.
        """

        def placed(**inputs: Any) -> Any:
            positions = (inputs["attention_mask"].cumsum(-1) - 1).clamp(min=0)
            return model(**inputs, position_ids=positions)

        return super()._get_per_token_logps_and_entropies(placed, *args, **kwargs)

    def _bring_together(self, metrics: dict[str, float]) -> dict[str, float]:
        """Metrics over all processes; the first process writes the records of the others."""
        mine = self.rollouts.run.take() if isinstance(self.rollouts.run, BufferedRun) else []
        everyone = gather_object([(metrics, self.rollouts.denominators, mine)])
        if is_first():
            for *_, records in everyone:
                for name, row in records:
                    self.rollouts.run.append(name, row)
        return together([(theirs, denominators) for theirs, denominators, _ in everyone])

    def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        """TRL's loss, timed; where it is a mean over rows, blank rows are left out of the mean."""
        started = time.perf_counter()
        loss = super().compute_loss(*args, **kwargs)
        if self.loss_type in _ROW_MEANS:
            loss = loss / self._filled_share
        if self.replay is not None:
            parts = self.args.gradient_accumulation_steps
            model = kwargs["model"] if "model" in kwargs else args[0]
            loss = loss + self.replay(model, self.state.global_step, self._step % parts, parts)
            self._metrics["train"]["replay_loss"].append(self.replay.last)
        self._forward_s = time.perf_counter() - started
        return loss

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        """One micro-batch, with its seconds of forward and backward; the last one of a step logs the sums."""
        self._prepare_s = 0.0
        started = time.perf_counter()
        loss = super().training_step(*args, **kwargs)
        elapsed = time.perf_counter() - started - self._prepare_s
        self._seconds["seconds/forward"] += self._forward_s
        self._seconds["seconds/backward"] += elapsed - self._forward_s
        if self._step % self.args.gradient_accumulation_steps == 0:
            self._sum_up()
        return loss

    def _sum_up(self) -> None:
        """Log seconds per step, and replace TRL's per-micro-batch entropy and KL by token-weighted means."""
        metrics = self._metrics["train"]
        for name, seconds in self._seconds.items():
            metrics[name].append(seconds)
        for name in _TOKEN_MEANS & set(metrics):
            per_batch = metrics[name][-len(self._tokens) :]
            total = sum(value * tokens for value, tokens in zip(per_batch, self._tokens, strict=True))
            metrics[name][-len(self._tokens) :] = [total / max(sum(self._tokens), 1.0)]

    def _prepare_inputs(self, *args: Any, **kwargs: Any) -> Any:
        started = time.perf_counter()
        dealt = self._buffered_inputs
        super()._prepare_inputs(*args, **kwargs)
        if self._buffered_inputs is not dealt:  # a step begins
            # `bnpo` divides by the tokens of each micro-batch: its loss depends on which games share one.
            batches = self._buffered_inputs
            batches = [trimmed(batch) for batch in batches] if self.loss_type == "bnpo" else by_length(batches)
            self._buffered_inputs = batches
            self._tokens = [float((batch["completion_mask"] * batch["tool_mask"]).sum()) for batch in batches]
            self._seconds = {"seconds/forward": 0.0, "seconds/backward": 0.0}
        self._prepare_s = time.perf_counter() - started
        return self._buffered_inputs[self._step % self.args.gradient_accumulation_steps]


class StateCallback(TrainerCallback):
    """Stores the rollouts' record with each checkpoint and times the optimizer."""

    def __init__(self, rollouts: GroupRollouts) -> None:
        self._rollouts = rollouts
        self._update_started = 0.0
        self.log_seconds: Callable[[float], None] = lambda _: None

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Note when the optimizer starts."""
        self._update_started = time.perf_counter()

    def on_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Log how long the optimizer took."""
        self.log_seconds(time.perf_counter() - self._update_started)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Write the record of all processes beside the checkpoint."""
        rollouts = self._rollouts
        record = {
            **rollouts.starts.state(),
            "best_compliance": rollouts.best_compliance,
            "cumulative_wins": rollouts.cumulative_wins,
        }
        if args.world_size > 1:
            record = merged(gather_object([record]))
        if not state.is_world_process_zero:
            return
        directory = Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
        write_json(directory / STATE_FILE, record)

    def load(self, checkpoint: str) -> None:
        """Restore the rollouts' record from a checkpoint."""
        record = read_object(Path(checkpoint) / STATE_FILE)
        self._rollouts.starts.load_state(record)
        self._rollouts.best_compliance = record["best_compliance"]
        self._rollouts.cumulative_wins = record["cumulative_wins"] if is_first() else 0  # they are summed


def merged(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One record of all processes; spreads of the same secret are averaged over processes, equally weighted."""
    compliance = [record["best_compliance"] for record in records if record["best_compliance"] is not None]
    return {
        "spread": _means([record["spread"] for record in records]),
        "best_compliance": max(compliance, default=None),
        "cumulative_wins": sum(record["cumulative_wins"] for record in records),
    }


def together(records: Sequence[tuple[Mapping[str, float], Mapping[str, int]]]) -> dict[str, float]:
    """The metrics of all processes as one: sums of counts, the largest of maxima, weighted means of the rest.

    Args:
        records: For each process its metrics and, for each mean not over all games, its denominator.
    """
    found: dict[str, list[tuple[float, int]]] = {}
    for metrics, denominators in records:
        for name, value in metrics.items():
            found.setdefault(name, []).append((value, denominators.get(name, 1)))
    result = {}
    for name, values in found.items():
        if name in _SUMS:
            result[name] = sum(value for value, _ in values)
        elif name.endswith("/max"):
            result[name] = max(value for value, _ in values)
        else:
            result[name] = sum(value * count for value, count in values) / max(sum(count for _, count in values), 1)
    return result


def _means(records: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of every number over the records that have it."""
    found: dict[str, list[float]] = {}
    for record in records:
        for name, value in record.items():
            found.setdefault(name, []).append(value)
    return {name: sum(values) / len(values) for name, values in found.items()}
