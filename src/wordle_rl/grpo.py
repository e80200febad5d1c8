"""Multi-turn GRPO with TRL's `GRPOTrainer`: our games, our credit, its loss.

TRL asks `Roller` for a batch of rows. In transcript shape a row is a whole game; in state shape a game takes as
many rows as it may have turns, one per prompt, and unused rows are blank: either way every sampled token of every
turn is trained on exactly once, under the prompt it was sampled from.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import (
    PreTrainedModel,
    PrinterCallback,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from trl import GRPOConfig, GRPOTrainer

from wordle_rl.chat import ChatCodec
from wordle_rl.config import GRPOSettings
from wordle_rl.modeling import make_optimizer, save_model, wants_bf16
from wordle_rl.roller import Arena, Roller, prompt_budget
from wordle_rl.runs import Run, read_object, write_json
from wordle_rl.training import (
    Progress,
    RunCallback,
    WholeCheckpoints,
    drop_checkpoints,
    held_interrupt,
    known_warnings_silenced,
    last_checkpoint,
    make_scheduler,
    train_to_end,
)

_STATE_FILE = "wordle_rl_state.json"


class WordleGRPOTrainer(WholeCheckpoints, GRPOTrainer):
    """`GRPOTrainer` with an advantage per token and a clock on each part of a step."""

    roller: Roller

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        started = time.perf_counter()
        output = super()._generate_and_score_completions(inputs)
        # TRL merges the extra lists of `rollout_func` into the inputs, row by row.
        width = output["completion_ids"].shape[1]
        rows = [row["token_advantages"] for row in inputs]
        padded = [row + [0.0] * (width - len(row)) for row in rows]
        output["advantages"] = torch.tensor(
            padded, dtype=torch.float32, device=output["completion_ids"].device
        )  # (B, T)
        metrics = self.roller.metrics
        metrics["seconds/logprobs"] = (
            time.perf_counter() - started - metrics["seconds/rollout"] - metrics["seconds/reward"]
        )
        for name, value in metrics.items():
            self._metrics["train"][name].append(value)
        return dict(output)

    def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        """TRL's loss, timed."""
        started = time.perf_counter()
        loss = super().compute_loss(*args, **kwargs)
        self._forward_s = time.perf_counter() - started
        return loss

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        """One micro-batch, timed: forward and backward."""
        self._prepare_s = 0.0
        started = time.perf_counter()
        loss = super().training_step(*args, **kwargs)  # type: ignore[no-untyped-call]  # TRL leaves it untyped
        elapsed = time.perf_counter() - started - self._prepare_s
        self._metrics["train"]["seconds/forward"].append(self._forward_s)
        self._metrics["train"]["seconds/backward"].append(elapsed - self._forward_s)
        return loss

    def _prepare_inputs(self, *args: Any, **kwargs: Any) -> Any:
        started = time.perf_counter()
        prepared = super()._prepare_inputs(*args, **kwargs)
        self._prepare_s = time.perf_counter() - started
        return prepared


class _StateCallback(TrainerCallback):
    """Stores the roller's record with each checkpoint and times the optimizer."""

    def __init__(self, roller: Roller) -> None:
        self._roller = roller
        self._update_started = 0.0
        self.log_seconds: Callable[[float], None] = lambda _: None

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Start the clock."""
        self._update_started = time.perf_counter()

    def on_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Stop the clock."""
        self.log_seconds(time.perf_counter() - self._update_started)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        roller = self._roller
        record = {
            "spread": roller.picker.state(),
            "best_compliance": roller.best_compliance,
            "cumulative_wins": roller.cumulative_wins,
        }
        directory = Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
        write_json(directory / _STATE_FILE, record)

    def load(self, checkpoint: str) -> None:
        """Restore the roller's record from a checkpoint."""
        record = read_object(Path(checkpoint) / _STATE_FILE)
        self._roller.picker.load_state(record["spread"])
        self._roller.best_compliance = record["best_compliance"]
        self._roller.cumulative_wins = record["cumulative_wins"]


def train_grpo(
    model: PreTrainedModel,
    codec: ChatCodec,
    arena: Arena,
    settings: GRPOSettings,
    run: Run,
    *,
    seed: int = 0,
    report_to: Sequence[str] = (),
    progress: Progress | None = None,
) -> Path:
    """Improve the model by playing and save it to `<run>/grpo`; an interrupted training goes on where it stopped.

    Args:
        model: The policy, changed in place.
        codec: Its tokenizer and template.
        arena: Words, prompts, training secrets, and a solver if the reward asks for one.
        settings: Groups, credit, loss, optimizer.
        run: Where metrics, games, checkpoints and the model go.
        seed: Seed of secrets, start boards and sampling.
        report_to: Experiment trackers, by TRL's names.
        progress: Told of every step.

    Returns:
        The model directory.

    Raises:
        ConfigError: If a setting cannot work.
        KeyboardInterrupt: After Ctrl-C, once a checkpoint is saved.
    """
    prompt_budget(model, settings)
    directory = run.directory / "grpo"
    checkpoints = directory / "checkpoints"
    roller = Roller(arena, codec, settings, run, seed)
    state_callback = _StateCallback(roller)
    with held_interrupt() as stop, known_warnings_silenced():
        trainer = WordleGRPOTrainer(
            model=model,
            reward_funcs=[_game],  # type: ignore[list-item]  # a list of floats is one of maybe-floats
            args=_arguments(settings, roller.rows_per_game, checkpoints, seed, report_to),
            train_dataset=Dataset.from_dict({"prompt": ["wordle"] * (settings.groups_per_step * 64)}),
            processing_class=codec.tokenizer,
            rollout_func=roller,
            callbacks=[RunCallback(run, "grpo", stop, progress, "win_rate"), state_callback],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.roller = roller
        state_callback.log_seconds = lambda s: trainer._metrics["train"]["seconds/update"].append(s)
        trainer.optimizer = make_optimizer(model, settings.optimizer)
        trainer.lr_scheduler = make_scheduler(trainer.optimizer, settings.optimizer, settings.steps)
        checkpoint = last_checkpoint(checkpoints, _STATE_FILE)
        if checkpoint is not None:
            state_callback.load(checkpoint)
        train_to_end(trainer, checkpoint, settings.steps)
    if trainer.is_world_process_zero():
        save_model(model, codec, directory)
        drop_checkpoints(checkpoints)
    return directory


def _game(game_reward: list[float], **_: Any) -> list[float]:
    """What TRL logs as the reward; the advantages come from `Roller`."""
    return game_reward


def _arguments(
    settings: GRPOSettings, rows_per_game: int, checkpoints: Path, seed: int, report_to: Sequence[str]
) -> GRPOConfig:
    rows = settings.groups_per_step * settings.group_size * rows_per_game
    micro = settings.micro_batch_size * rows_per_game or rows
    return GRPOConfig(
        output_dir=str(checkpoints),
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=rows // micro,
        num_generations=settings.group_size * rows_per_game,
        max_completion_length=settings.sampling.max_completion_tokens,
        max_steps=settings.steps,
        temperature=settings.sampling.temperature or 1.0,
        beta=settings.beta,
        epsilon=settings.epsilon,
        epsilon_high=settings.epsilon_high,
        loss_type=settings.loss_type,
        importance_sampling_level="sequence" if settings.sequence_importance else "token",
        scale_rewards="none",
        learning_rate=settings.optimizer.learning_rate,
        max_grad_norm=settings.optimizer.max_grad_norm,
        bf16=wants_bf16(settings.precision),
        use_cpu=not torch.cuda.is_available(),
        gradient_checkpointing=settings.gradient_checkpointing,
        logging_steps=1,
        save_strategy="steps" if settings.save_steps else "no",
        save_steps=settings.save_steps or 500,
        save_total_limit=1,
        report_to=list(report_to),
        seed=seed,
        disable_tqdm=True,
        log_level="error",
        log_completions=False,
    )
