"""Multi-turn GRPO with TRL's `GRPOTrainer`: our games, our credit, its loss.

TRL asks `GroupRollouts` for a batch of rows. In transcript shape a row is a whole game; in state shape a game takes as
many rows as it may have turns, one per prompt, and unused rows are blank. Either way every sampled token of every turn
is trained on exactly once, under the prompt it was sampled from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import PreTrainedModel, PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import ConfigError, GRPOSettings
from wordle_rl.models.adapters import has_adapters
from wordle_rl.models.loading import context_length
from wordle_rl.models.text_part import is_text_part
from wordle_rl.rl.grpo.checkpoint_selection import BestWeights, Validation
from wordle_rl.rl.grpo.replay import ReplayLoss
from wordle_rl.rl.grpo.rollouts import GroupRollouts
from wordle_rl.rl.grpo.trainer import StateCallback, WordleGRPOTrainer
from wordle_rl.rl.grpo.vllm import check_colocated, colocated_player, release_engine, vllm_arguments
from wordle_rl.rl.setup import GameSetup, prompt_budget
from wordle_rl.runs import BufferedRun, Run
from wordle_rl.runs.distributed import is_first, seed_for_all, whole_weights_reason
from wordle_rl.runs.progress import ProgressCallback
from wordle_rl.runs.trackers import game_trackers, keep_tensorboard
from wordle_rl.training.checkpoints import drop_checkpoints, last_checkpoint, save_trained
from wordle_rl.training.guard import StepGuard
from wordle_rl.training.interrupt import held_interrupt
from wordle_rl.training.optimizer import make_optimizer
from wordle_rl.training.trainer import (
    STATE_FILE,
    RunCallback,
    check_launch,
    known_warnings_silenced,
    make_scheduler,
    train_to_end,
    trainer_arguments,
)


def train_grpo(
    model: PreTrainedModel,
    codec: ChatCodec,
    setup: GameSetup,
    settings: GRPOSettings,
    run: Run,
    *,
    seed: int = 0,
    report_to: Sequence[str] = (),
    progress: ProgressCallback | None = None,
) -> Path:
    """Improve the model by playing and save it to `<run>/grpo`; an interrupted training goes on where it stopped.

    Args:
        model: The policy, changed in place.
        codec: Its tokenizer and template.
        setup: Words, prompts, training secrets, solver.
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
    _check_before_training(settings, model)
    directory = run.directory / "grpo"
    checkpoints = directory / "checkpoints"
    rollouts = GroupRollouts(setup, codec, settings, run if is_first() else BufferedRun(run.directory), seed)
    guard = StepGuard("grpo", settings.optimizer.max_bad_steps)
    state_callback = StateCallback(rollouts)
    engine = _engine_arguments(settings, setup, codec, context_length(model))
    with held_interrupt() as stop, known_warnings_silenced():
        trainer = WordleGRPOTrainer(
            model=model,
            reward_funcs=[_game],  # type: ignore[list-item]  # a list of floats is one of maybe-floats
            args=_arguments(settings, rollouts.rows_per_game, checkpoints, seed, report_to, engine),
            train_dataset=Dataset.from_dict({"prompt": ["wordle"] * (settings.groups_per_step * 64)}),
            processing_class=codec.tokenizer,
            rollout_func=rollouts,
            callbacks=[guard, RunCallback(run, "grpo", stop, progress, "win_rate", guard), state_callback],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.guard = guard
        check_launch(trainer, settings.optimizer, "grpo", whole_weights_reason(settings, has_adapters(model)))
        trainer.rollouts = rollouts
        if trainer.is_world_process_zero():
            rollouts.book.trackers = game_trackers(report_to, trainer.callback_handler.callbacks)
        keep_tensorboard(trainer.callback_handler.callbacks, directory / "tensorboard")
        state_callback.log_seconds = lambda s: trainer._metrics["train"]["seconds/update"].append(s)
        if settings.replay_games:
            trainer.replay = ReplayLoss(model, codec, setup.prompter, settings, run, seed, trainer.accelerator)
        trainer.optimizer = make_optimizer(model, settings.optimizer)
        trainer.lr_scheduler = make_scheduler(trainer.optimizer, settings.optimizer, settings.steps)
        checkpoint = last_checkpoint(checkpoints, STATE_FILE)
        if checkpoint is not None:
            state_callback.load(checkpoint)
        best = _best_weights(trainer, model, rollouts, directory)
        train_to_end(trainer, checkpoint, settings.steps)
    guard.check(checkpoints)
    rollouts.book.trackers = ()  # their runs ended with the training
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


def _check_before_training(settings: GRPOSettings, model: PreTrainedModel) -> None:
    """Refuse a context without room for a reply, an engine that cannot play the model, a reference of another kind."""
    prompt_budget(model, settings)
    if settings.engine == "vllm":
        check_colocated(settings, model)
    if settings.beta and not has_adapters(model) and _reads_a_part(model):
        raise ConfigError(
            f"grpo.beta would load all of {model.name_or_path} as reference, of which the text part alone is trained "
            "here; set it to 0, set model.lora.rank, or begin with SFT, which saves the text part"
        )


def _reads_a_part(model: PreTrainedModel) -> bool:
    return bool(model.name_or_path) and is_text_part(str(model.name_or_path))


def _engine_arguments(
    settings: GRPOSettings, setup: GameSetup, codec: ChatCodec, context: int | None
) -> dict[str, Any]:
    """What TRL is told of vLLM; nothing where it does not play."""
    if settings.engine != "vllm":
        return {}
    return vllm_arguments(settings, setup.words, setup.prompter, codec, context)


def _best_weights(
    trainer: GRPOTrainer, model: PreTrainedModel, rollouts: GroupRollouts, directory: Path
) -> BestWeights | None:
    """Keep the best weights, where the settings ask for it."""
    settings, book = rollouts.settings, rollouts.book
    if not settings.validate_every_steps:
        return None
    engine = partial(colocated_player, trainer, rollouts.codec) if settings.engine == "vllm" else None
    validation = Validation(
        model,
        rollouts.codec,
        rollouts.setup,
        settings.sampling,
        book,
        settings.sample_games,
        engine,
        rollouts.reward_of,
    )
    every, shares = settings.validate_every_steps, settings.candidate_shares
    best = BestWeights(model, validation, every, book.run, directory / "best", shares)
    trainer.add_callback(best)
    return best


def _game(game_reward: list[float], **_: Any) -> list[float]:
    """What TRL logs as the reward; the advantages come from `GroupRollouts`."""
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
    common = trainer_arguments(
        settings.optimizer, settings.precision, settings.gradient_checkpointing, checkpoints, seed_for_all(seed)
    )
    return GRPOConfig(
        **common,
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=rows // micro,
        num_generations=settings.group_size * rows_per_game,
        max_completion_length=settings.sampling.max_completion_tokens,
        max_steps=settings.steps,
        temperature=settings.sampling.temperature,
        beta=settings.beta,
        epsilon=settings.epsilon,
        epsilon_high=settings.epsilon_high,
        loss_type=settings.loss_type,
        importance_sampling_level="sequence" if settings.sequence_importance else "token",
        scale_rewards="none",
        disable_dropout=True,  # games were played without it, so their tokens must be scored without it
        logging_steps=1,
        # With validation, the last step needs a checkpoint in case the validation after it is interrupted.
        save_strategy="steps" if settings.save_steps or settings.validate_every_steps else "no",
        save_steps=settings.save_steps or max(1, settings.steps),
        ddp_find_unused_parameters=False,
        report_to=list(report_to),
        log_completions=False,
        **engine,
    )
