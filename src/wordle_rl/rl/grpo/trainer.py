"""The optimizer step of GRPO: TRL's `GRPOTrainer` over our rollouts, with an advantage for every token.

_roll_out                          the games of the step, as rows
_generate_and_score_completions    their token ids as tensors; advantages per token; metrics
_prepare_inputs                    micro-batches of rows of similar length
compute_loss                       TRL's loss, of one micro-batch
training_step                      forward and backward; the last micro-batch of a step logs the sums
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from accelerate.utils import gather_object
from datasets import Dataset
from torch import Tensor
from transformers import (
    PreTrainedModel,
    PrinterCallback,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from trl import GRPOConfig, GRPOTrainer

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import GRPOTraining, SamplingSettings
from wordle_rl.rl.grpo.divergence import LARGEST_RATIO, StartPolicy, kl_estimate, mismatch, mismatch_sums
from wordle_rl.rl.grpo.gather import merged_metrics, merged_state
from wordle_rl.rl.grpo.layout import Rows
from wordle_rl.rl.grpo.micro_batches import by_length, trimmed
from wordle_rl.rl.grpo.rollouts import GroupRollouts, StepResult
from wordle_rl.rl.grpo.vllm import colocated_player, send_weights
from wordle_rl.rl.grpo.vllm_server import server_player
from wordle_rl.rl.setup import prompt_budget
from wordle_rl.runs import BufferedRun, Run
from wordle_rl.runs.distributed import is_first
from wordle_rl.samplers.base import Sampler
from wordle_rl.samplers.transformers import TransformersSampler
from wordle_rl.training.guard import StepGuard
from wordle_rl.training.trainer import WholeCheckpoints

_TOKEN_MEANS = {"entropy", "kl", "sampler_kl", "importance_ratio/mean"}
_KL_ROWS = 64
"""Rows on which the divergence from the start is measured at each step."""
_ROW_MEANS = {"grpo", "dr_grpo"}
"""TRL's losses that are means over rows."""


class WordleGRPOTrainer(WholeCheckpoints, GRPOTrainer):
    """`GRPOTrainer` with an advantage per token, micro-batches by length, and the seconds of each part of a step.

    Args:
        model: The policy.
        args: TRL's settings.
        codec: Tokenizer and chat template.
        settings: Steps, sampling, engine, bound of importance ratios.
        rollouts: Plays the games of a step.
        run: Where the rollouts of this process log; a `BufferedRun` in all processes but the first.
        guard: Checks every loss.
        callbacks: In this order.
    """

    _buffered_inputs: Any  # TRL's micro-batches of the step
    _result: StepResult  # the games of the step
    _filled_share = 1.0  # fraction of a step's rows, of all processes, that are not blank
    _policy_logprobs: Tensor | None = None  # of the tokens of the micro-batch in training, (B, T)

    def __init__(
        self,
        model: PreTrainedModel,
        args: GRPOConfig,
        *,
        codec: ChatCodec,
        settings: GRPOTraining,
        rollouts: GroupRollouts,
        run: Run,
        guard: StepGuard,
        callbacks: Sequence[TrainerCallback],
    ) -> None:
        self._codec, self._settings, self._rollouts, self._run = codec, settings, rollouts, run
        super().__init__(
            model=model,
            args=args,
            processing_class=codec.tokenizer,
            # TRL draws prompts and scores texts; ours are made in `_roll_out`, and these only give the numbers of rows.
            train_dataset=Dataset.from_dict({"prompt": ["wordle"] * (settings.groups_per_step * 64)}),
            reward_funcs=[_game],
            rollout_func=self._roll_out,
            callbacks=list(callbacks),
            guard=guard,
        )
        self.remove_callback(PrinterCallback)
        self.add_callback(OptimizerTimer(lambda s: self._metrics["train"]["seconds/update"].append(s)))
        self._start = None if settings.beta else StartPolicy.of(self.accelerator.unwrap_model(self.model))

    @contextmanager
    def open_sampler(self, sampling: SamplingSettings, seed: int) -> Iterator[tuple[Sampler, int | None]]:
        """A sampler over the current weights, and the longest prompt that leaves room for a completion."""
        if server := self._settings.server:
            with server_player(self, server, self._codec, sampling, seed) as served:
                yield served
            return
        if self.use_vllm:
            with colocated_player(self, self._codec, sampling, seed) as player:
                yield player
            return
        model = self.accelerator.unwrap_model(self.model)
        yield TransformersSampler(model, self._codec, sampling, seed), prompt_budget(model, self._settings.sampling)

    def state_to_store(self) -> dict[str, Any]:
        """The state of the rollouts of all processes."""
        stored = self._rollouts.state()
        return merged_state(gather_object([stored])) if self.accelerator.num_processes > 1 else stored

    def _roll_out(self, prompts: list[Any], _: GRPOTrainer) -> Rows:
        """TRL's `rollout_func`: one row per prompt; the text of the prompts is not used."""
        self._result = self._rollouts(int(self.state.global_step), self.open_sampler)
        return self._result.rows

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        sent = {"seconds/weights": send_weights(self)} if self.use_vllm else {}
        started = time.perf_counter()
        output = super()._generate_and_score_completions(inputs)
        result = self._result
        output["advantages"] = _padded(result.rows["token_advantages"], output["completion_ids"])  # (B, T)
        self._filled_share = self._mean_over_processes(result.filled_share)
        metrics = {**result.metrics, **sent}
        if limit := self._settings.importance_cap:
            self._correct_for_the_sampler(output, limit)
        metrics["seconds/logprobs"] = (
            time.perf_counter() - started - metrics["seconds/rollout"] - metrics["seconds/reward"]
        )
        if self.accelerator.num_processes > 1:
            metrics = self._over_processes(result, metrics)
        self._rollouts.note_compliance(metrics["format_compliance"])
        self._log_step(metrics)
        return dict(output)

    def _log_step(self, metrics: dict[str, float]) -> None:
        """Add to TRL's metrics, less its own counts of tokens, which take a row for one reply and count blank rows."""
        logged = self._metrics["train"]
        for name in [name for name in logged if name.startswith("completions/")]:
            del logged[name]
        for name, value in metrics.items():
            logged[name].append(value)

    @torch.no_grad()
    def _correct_for_the_sampler(self, output: dict[str, Any], limit: float) -> None:
        """Multiply each token's advantage by its importance ratio: probability in training over that in sampling.

        Ratios are cut at `limit` (truncated importance sampling). A positive factor on the advantage is the same factor
        on the token's loss.
        """
        ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)  # (B, P + T)
        attention = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)  # (B, P + T)
        width = output["completion_ids"].shape[1]
        batch_size = self.args.per_device_train_batch_size
        policy_logprobs = self._get_per_token_logps_and_entropies(
            self.model, ids, attention, width, batch_size=batch_size
        )[0]  # (B, T)
        loss_mask = (output["completion_mask"] * output["tool_mask"]).bool()  # (B, T)
        ratio = (policy_logprobs - output["sampling_per_token_logps"]).where(loss_mask, 0.0).exp()  # (B, T)
        output["advantages"] = output["advantages"] * ratio.clamp(max=limit)

    def _get_per_token_logps_and_entropies(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        """TRL's, with position ids that skip left padding, as in sampling.

        Otherwise models with absolute positions train on shifted inputs, and others get rounding noise in 16 bits.
        """

        def placed(**inputs: Any) -> Any:
            positions = (inputs["attention_mask"].cumsum(-1) - 1).clamp(min=0)
            return model(**inputs, position_ids=positions)

        found = super()._get_per_token_logps_and_entropies(placed, *args, **kwargs)
        self._policy_logprobs = found[0].detach()
        return found

    def _mean_over_processes(self, value: float) -> float:
        return float(self.accelerator.gather(torch.tensor([value], device=self.accelerator.device)).mean())

    def _over_processes(self, result: StepResult, metrics: dict[str, float]) -> dict[str, float]:
        """Metrics over all processes; the first process writes the records of the others."""
        mine = self._run.take() if isinstance(self._run, BufferedRun) else []
        everyone = gather_object([(metrics, result.denominators, mine)])
        if is_first():
            for *_, records in everyone:
                for name, row in records:
                    self._run.append(name, row)
        return merged_metrics([(theirs, denominators) for theirs, denominators, _ in everyone])

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

    def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        """TRL's loss, timed; where it is a mean over rows, blank rows are left out of the mean.

        `dr_grpo` divides by the most tokens that a row may hold, so that its loss does not grow with the length of
        games. TRL takes a row for one completion; a game in transcript shape has one for each turn.
        """
        started = time.perf_counter()
        loss = super().compute_loss(*args, **kwargs)
        if self.loss_type in _ROW_MEANS:
            loss = loss / self._filled_share
        if self.loss_type == "dr_grpo":
            loss = loss / self._rollouts.completions_per_row
        self._log_divergence(kwargs["inputs"] if "inputs" in kwargs else args[1])
        self._forward_s = time.perf_counter() - started
        return loss

    @torch.no_grad()
    def _log_divergence(self, batch: dict[str, Tensor]) -> None:
        """Log how far the policy is from the sampler of these tokens, and once a step from its start."""
        if self._policy_logprobs is None or "sampling_per_token_logps" not in batch:
            return
        sampled = (batch["completion_mask"] * batch["tool_mask"]).bool()  # (B, T)
        policy, sampler = self._policy_logprobs[sampled], batch["sampling_per_token_logps"][sampled]  # (tokens,)
        gathered = self.accelerator.gather(mismatch_sums(policy, sampler)).view(-1, 4)  # (processes, 4)
        for name, value in mismatch(gathered).items():
            self._metrics["train"][name].append(value)
        if self._start is not None and self._step % self.args.gradient_accumulation_steps == 0:
            self._metrics["train"]["kl_to_start"].append(self._kl_to_start(self._start, batch, sampled))

    def _kl_to_start(self, start: StartPolicy, batch: dict[str, Tensor], sampled: Tensor) -> float:
        """KL divergence of the policy from its start in nats per token, on some rows of the first micro-batch."""
        policy_logprobs = self._policy_logprobs
        assert policy_logprobs is not None
        few = slice(_KL_ROWS)
        ids = torch.cat([batch["prompt_ids"][few], batch["completion_ids"][few]], dim=1)  # (b, P + T)
        attention = torch.cat([batch["prompt_mask"][few], batch["completion_mask"][few]], dim=1)  # (b, P + T)
        with torch.no_grad():
            width = batch["completion_ids"].shape[1]
            logprobs = self._get_per_token_logps_and_entropies(start, ids, attention, width)
        ours, theirs = policy_logprobs[few][sampled[few]], logprobs[0][sampled[few]]  # (tokens,)
        return self._mean_over_processes(float(kl_estimate(theirs - ours).mean()) if len(ours) else 0.0)

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
        last = slice(-len(self._tokens), None)
        for name in _TOKEN_MEANS & set(metrics):
            total = sum(value * tokens for value, tokens in zip(metrics[name][last], self._tokens, strict=True))
            metrics[name][last] = [total / max(sum(self._tokens), 1.0)]
        if LARGEST_RATIO in metrics:
            metrics[LARGEST_RATIO][last] = [max(metrics[LARGEST_RATIO][last])]


def _game(game_reward: list[float], **_: Any) -> list[float]:
    """The column that TRL logs as the reward, under this function's name; no advantage is computed from it."""
    return game_reward


def _padded(rows: Sequence[list[float]], like: Tensor) -> Tensor:
    """Rows of numbers as a tensor of the shape of `like`, padded on the right with 0.0."""
    width = like.shape[1]
    return torch.tensor([row + [0.0] * (width - len(row)) for row in rows], dtype=torch.float32, device=like.device)


class OptimizerTimer(TrainerCallback):
    """Reports the seconds of each optimizer step."""

    def __init__(self, report: Callable[[float], None]) -> None:
        self._report = report
        self._started = 0.0

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Start the clock."""
        self._started = time.perf_counter()

    def on_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Stop it."""
        self._report(time.perf_counter() - self._started)
