"""Multi-turn GRPO with TRL's `GRPOTrainer`: our games, our credit, its loss.

TRL asks `Roller` for a batch of rows. In transcript shape a row is a whole game; in state shape a game takes as
many rows as it may have turns, one per prompt, and unused rows are blank: either way every sampled token of every
turn is trained on exactly once, under the prompt it was sampled from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import PreTrainedModel, PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from wordle_rl.chat import ChatCodec
from wordle_rl.config import GRPOSettings
from wordle_rl.models.adapters import has_adapters
from wordle_rl.models.loading import context_length
from wordle_rl.processes import asks_for_whole, is_first
from wordle_rl.rl.colocate import check_colocated, colocated_player, release_engine, vllm_arguments
from wordle_rl.rl.grpo_trainer import StateCallback, WordleGRPOTrainer
from wordle_rl.rl.replay import ReplayLoss
from wordle_rl.rl.roller import Arena, Roller, prompt_budget
from wordle_rl.rl.selection import BestWeights, Validation
from wordle_rl.runs import Outbox, Run
from wordle_rl.runs.trackers import game_trackers, keep_tensorboard
from wordle_rl.training.checkpoints import drop_checkpoints, last_checkpoint, save_trained
from wordle_rl.training.guard import StepGuard
from wordle_rl.training.interrupt import held_interrupt
from wordle_rl.training.loop import (
    STATE_FILE,
    Progress,
    RunCallback,
    check_launch,
    known_warnings_silenced,
    make_scheduler,
    train_to_end,
)
from wordle_rl.training.optimizer import make_optimizer, wants_bf16


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
        arena: Words, prompts, training secrets, solver.
        settings: Groups, credit, loss, optimizer.
        run: Where metrics, games, checkpoints and the model go.
        seed: Seed of secrets, start boards and sampling.
        report_to: Experiment trackers, by TRL's names.
        progress: Told of every step.

    Returns:
        The model directory.

    Raises:
        ConfigError: If a setting cannot work.
        RunError: If the loss is not finite for too many steps in a row.
        KeyboardInterrupt: After Ctrl-C, once a checkpoint is saved.
    """
    prompt_budget(model, settings)
    if settings.engine == "vllm":
        check_colocated(settings, model)
    directory = run.directory / "grpo"
    checkpoints = directory / "checkpoints"
    roller = Roller(arena, codec, settings, run if is_first() else Outbox(run.directory), seed)
    guard = StepGuard("grpo", settings.optimizer.max_bad_steps)
    state_callback = StateCallback(roller)
    engine = _engine_arguments(settings, arena, codec, context_length(model))
    with held_interrupt() as stop, known_warnings_silenced():
        trainer = WordleGRPOTrainer(
            model=model,
            reward_funcs=[_game],  # type: ignore[list-item]  # a list of floats is one of maybe-floats
            args=_arguments(settings, roller.rows_per_game, checkpoints, seed, report_to, engine),
            train_dataset=Dataset.from_dict({"prompt": ["wordle"] * (settings.groups_per_step * 64)}),
            processing_class=codec.tokenizer,
            rollout_func=partial(_rows_of, roller, codec.stop_ids) if settings.mask_overlong else roller,
            callbacks=[guard, RunCallback(run, "grpo", stop, progress, "win_rate", guard), state_callback],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.guard = guard
        check_launch(trainer, settings.optimizer, "grpo", asks_for_whole(settings, has_adapters(model)))
        trainer.roller = roller
        if trainer.is_world_process_zero():
            roller.book.trackers = game_trackers(report_to, trainer.callback_handler.callbacks)
        keep_tensorboard(trainer.callback_handler.callbacks, directory / "tensorboard")
        state_callback.log_seconds = lambda s: trainer._metrics["train"]["seconds/update"].append(s)
        if settings.replay_games:
            trainer.replay = ReplayLoss(model, codec, arena.prompter, settings, run, seed, trainer.accelerator)
        trainer.optimizer = make_optimizer(model, settings.optimizer)
        trainer.lr_scheduler = make_scheduler(trainer.optimizer, settings.optimizer, settings.steps)
        checkpoint = last_checkpoint(checkpoints, STATE_FILE)
        if checkpoint is not None:
            state_callback.load(checkpoint)
        best = _best_weights(trainer, model, roller, directory)
        train_to_end(trainer, checkpoint, settings.steps)
    guard.check(checkpoints)
    roller.book.trackers = ()  # their runs ended with the training
    if best is not None:
        best.take_best(settings.steps)
    if settings.engine == "vllm":
        release_engine(trainer)
    save_trained(trainer, codec, directory)
    if trainer.is_world_process_zero():
        drop_checkpoints(checkpoints)
        if best is not None:
            best.forget()
    return directory


def _engine_arguments(settings: GRPOSettings, arena: Arena, codec: ChatCodec, context: int | None) -> dict[str, Any]:
    """What TRL is told of vLLM; nothing where it does not play."""
    if settings.engine != "vllm":
        return {}
    return vllm_arguments(settings, arena.words, arena.prompter, codec, context)


def _best_weights(trainer: GRPOTrainer, model: PreTrainedModel, roller: Roller, directory: Path) -> BestWeights | None:
    """Have the best weights kept, if that is wanted."""
    settings, book = roller.settings, roller.book
    if not settings.validate_every_steps:
        return None
    engine = partial(colocated_player, trainer, roller.codec) if settings.engine == "vllm" else None
    validation = Validation(
        model, roller.codec, roller.arena, settings.sampling, book, settings.sample_games, engine, roller.reward_of
    )
    best = BestWeights(model, validation, settings.validate_every_steps, book.run, directory / "best", settings.blends)
    trainer.add_callback(best)
    return best


def _rows_of(
    roller: Roller, stop_ids: frozenset[int], prompts: list[Any], trainer: GRPOTrainer
) -> dict[str, list[Any]]:
    """The roller's rows with replies that were cut at their token limit left out of the loss."""
    rows = roller(prompts, trainer)
    rows["env_mask"] = [
        without_overlong(mask, ids, stop_ids)
        for mask, ids in zip(rows["env_mask"], rows["completion_ids"], strict=True)
    ]
    return rows


def without_overlong(mask: Sequence[int], token_ids: Sequence[int], stop_ids: frozenset[int]) -> list[int]:
    """A loss mask without the replies that do not end in a closing token.

    Args:
        mask: 1 on sampled tokens; replies are runs of ones, since an answer stands between any two.
        token_ids: The tokens, as many.
        stop_ids: Tokens that close a reply.

    Examples:
        >>> without_overlong([1, 1, 0, 1, 1], [5, 9, 7, 5, 6], frozenset({9}))
        [1, 1, 0, 0, 0]
    """
    kept = [0] * len(mask)
    start = 0
    for place, m in enumerate(mask):
        if not m:
            start = place + 1
        elif (place + 1 == len(mask) or not mask[place + 1]) and token_ids[place] in stop_ids:
            kept[start : place + 1] = [1] * (place + 1 - start)
    return kept


def _game(game_reward: list[float], **_: Any) -> list[float]:
    """What TRL logs as the reward; the advantages come from `Roller`."""
    return game_reward


def _arguments(
    settings: GRPOSettings,
    rows_per_game: int,
    checkpoints: Path,
    seed: int,
    report_to: Sequence[str],
    engine: Mapping[str, Any],
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
        disable_dropout=True,  # games were played without it, and are to be scored as they were played
        learning_rate=settings.optimizer.learning_rate,
        max_grad_norm=settings.optimizer.max_grad_norm,
        bf16=wants_bf16(settings.precision),
        use_cpu=not torch.cuda.is_available(),
        gradient_checkpointing=settings.gradient_checkpointing,
        logging_steps=1,
        # Where weights are chosen, the last step must outlive a stop while that is done.
        save_strategy="steps" if settings.save_steps or settings.validate_every_steps else "no",
        save_steps=settings.save_steps or max(1, settings.steps),
        save_total_limit=1,
        ddp_find_unused_parameters=False,
        report_to=list(report_to),
        seed=seed,
        disable_tqdm=True,
        log_level="error",
        log_completions=False,
        **engine,
    )
