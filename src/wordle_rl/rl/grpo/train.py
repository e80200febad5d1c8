"""Multi-turn GRPO with TRL's `GRPOTrainer`: our games and advantages, its loss.

`train_grpo` puts the parts together, each given what it needs when it is made:

    GameLog              sample games, to games.jsonl and trackers
    GroupRollouts        the games of a step               rollouts.py
    WordleGRPOTrainer    the loss and the optimizer step   trainer.py
    Validation           play of the current weights       validation.py
    BestWeights          checkpoint selection              checkpoint_selection.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, TrainerCallback
from transformers.integrations.integration_utils import get_reporting_integration_callbacks
from trl import GRPOConfig

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import ConfigError, GRPOTraining
from wordle_rl.models.adapters import has_adapters
from wordle_rl.models.loading import context_length
from wordle_rl.models.multimodal import is_text_part
from wordle_rl.rl.grpo.checkpoint_selection import BestWeights
from wordle_rl.rl.grpo.rollouts import GroupRollouts, rewind_games
from wordle_rl.rl.grpo.trainer import WordleGRPOTrainer
from wordle_rl.rl.grpo.validation import Validation
from wordle_rl.rl.grpo.vllm import check_colocated, release_engine, vllm_arguments
from wordle_rl.rl.grpo.vllm_server import check_server, leave_server, server_arguments
from wordle_rl.rl.grpo.weight_store import TorchWeights
from wordle_rl.rl.setup import GameSetup, prompt_budget
from wordle_rl.runs import STEPS, BufferedRun, Run
from wordle_rl.runs.distributed import (
    check_sharded,
    check_sharded_play,
    is_first,
    num_processes,
    process_index,
    seed_for_all,
)
from wordle_rl.runs.progress import ProgressCallback
from wordle_rl.runs.trackers import GameLog, game_trackers, keep_tensorboard
from wordle_rl.training.checkpoints import (
    StepModels,
    drop_checkpoints,
    last_checkpoint,
    last_step,
    save_trained,
    stored_state,
)
from wordle_rl.training.guard import StepGuard
from wordle_rl.training.interrupt import held_interrupt
from wordle_rl.training.optimizer import make_optimizer
from wordle_rl.training.trainer import (
    RunCallback,
    is_sharded,
    known_warnings_silenced,
    make_scheduler,
    train_to_end,
    trainer_arguments,
)

HEADLINE = ("loss", "reward", "win_rate")
"""Metrics on the line that shows progress."""


def train_grpo(
    model: PreTrainedModel,
    codec: ChatCodec,
    setup: GameSetup,
    settings: GRPOTraining,
    run: Run,
    *,
    seed: int = 0,
    report_to: Sequence[str] = (),
    progress: ProgressCallback | None = None,
    on_saved: Callable[[Path], None] | None = None,
) -> Path:
    """Improve the model by playing and save it to `<run>/grpo`; an interrupted training resumes where it stopped.

    Args:
        model: The policy, changed in place.
        codec: Its tokenizer and template.
        setup: Words, prompts, training secrets, solver.
        settings: Groups, credit, loss, optimizer.
        run: Where metrics, games, checkpoints and the model go.
        seed: Seed of secrets, initial states and sampling.
        report_to: Experiment trackers, by TRL's names.
        progress: Called after every step.
        on_saved: Called in the first process with the directory of the whole model, before checkpoints are removed.

    Returns:
        The model directory.

    Raises:
        ConfigError: If a setting cannot work.
        RunError: If the loss is not finite for too many steps in a row.
        KeyboardInterrupt: After Ctrl-C, once a checkpoint is saved.
    """
    _check_before_training(settings, setup, model, codec)
    directory = run.directory / "grpo"
    checkpoints = directory / "checkpoints"
    if is_first():
        rewind_games(run, last_step(checkpoints))
    own_run = run if is_first() else BufferedRun(run.directory)
    reporters = _reporters(report_to, directory)
    log = GameLog(own_run, game_trackers(report_to, reporters, setup.prompter) if is_first() else ())
    rollouts = GroupRollouts(setup, codec, settings, log, seed, process=process_index(), num_processes=num_processes())
    guard = StepGuard("grpo")
    more = {**_engine_arguments(settings, setup, codec, context_length(model)), **run.tracker_arguments("grpo")}
    with held_interrupt() as stop, known_warnings_silenced():
        metrics = RunCallback(run, "grpo", stop, progress, HEADLINE, guard)
        trainer = WordleGRPOTrainer(
            model,
            _arguments(settings, rollouts.rows_per_game, checkpoints, seed, more),
            codec=codec,
            settings=settings,
            rollouts=rollouts,
            run=own_run,
            guard=guard,
            callbacks=[*reporters, guard, metrics],
        )
        trainer.add_callback(StepModels(trainer, codec, directory / STEPS, settings.save_total_limit))
        _check_launch(trainer, settings, has_adapters(model))
        best = None
        if settings.validate_every_steps:
            player = trainer.open_sampler if settings.plays_by_vllm else None
            sampling, shown = settings.sampling, settings.sample_games
            validation = Validation(model, codec, setup, sampling, log, shown, player, rollouts.reward_of)
            every, alphas = settings.validate_every_steps, settings.interpolation_alphas
            best = BestWeights(
                TorchWeights(model),
                validation,
                every,
                own_run,
                directory / "best",
                alphas,
                stop_below_start=settings.stop_below_start,
                remark=metrics.remark,
            )
            trainer.add_callback(best)
        # transformers takes no optimizer in the constructor where FSDP shards the weights
        trainer.optimizer = make_optimizer(model, settings.optimizer)
        trainer.lr_scheduler = make_scheduler(trainer.optimizer, settings.optimizer, settings.steps)
        checkpoint = last_checkpoint(checkpoints)
        if checkpoint is not None:
            rollouts.load_state(stored_state(checkpoint))
        train_to_end(trainer, checkpoint, settings.steps)
    guard.check(checkpoints)
    log.detach_trackers()
    if best is not None:
        best.take_best(trainer.state.global_step or settings.steps)  # 0: nothing was left to train
    if settings.plays_by_vllm:
        (leave_server if settings.server else release_engine)(trainer)
    save_trained(trainer, codec, directory)
    if is_first():
        _tidy(directory, best, on_saved)
    return directory


def _tidy(directory: Path, best: BestWeights | None, on_saved: Callable[[Path], None] | None) -> None:
    """Report the saved model, and only then remove what a training resumes from."""
    if on_saved is not None:
        on_saved(directory)
    drop_checkpoints(directory / "checkpoints")
    if best is not None:
        best.forget()


def _check_before_training(settings: GRPOTraining, setup: GameSetup, model: PreTrainedModel, codec: ChatCodec) -> None:
    """Refuse a context without room for a reply, an engine that cannot play the model, a reference of another kind."""
    prompt_budget(model, settings.sampling)
    if settings.server:
        check_server(settings, model, setup.words, setup.prompter, codec)
    elif settings.plays_by_vllm:
        check_colocated(settings, model)
    if settings.beta and not has_adapters(model) and _reads_a_part(model):
        raise ConfigError(
            f"grpo.beta would load all of {model.name_or_path} as reference, of which the text part alone is trained "
            "here; set it to 0, set model.lora.rank, or begin with SFT, which saves the text part"
        )


def _check_launch(trainer: WordleGRPOTrainer, settings: GRPOTraining, has_adapters: bool) -> None:
    """Refuse what cannot work on sharded weights, where the trainer has found its weights to be."""
    if is_sharded(trainer):
        check_sharded_play(settings, has_adapters)
        check_sharded(settings.optimizer, "rl")


def _reads_a_part(model: PreTrainedModel) -> bool:
    return bool(model.name_or_path) and is_text_part(str(model.name_or_path))


def _reporters(report_to: Sequence[str], directory: Path) -> list[TrainerCallback]:
    """The callbacks of experiment trackers, which TRL would make itself; games are shown through the same."""
    reporters = [make() for make in get_reporting_integration_callbacks(list(report_to))]
    keep_tensorboard(reporters, directory / "tensorboard")
    return reporters


def _engine_arguments(
    settings: GRPOTraining, setup: GameSetup, codec: ChatCodec, context: int | None
) -> dict[str, Any]:
    """TRL's settings of vLLM; none where it does not play."""
    if settings.server:
        return server_arguments(settings.server)
    if not settings.plays_by_vllm:
        return {}
    return vllm_arguments(settings, setup.words, setup.prompter, codec, context)


def _arguments(
    settings: GRPOTraining, rows_per_game: int, checkpoints: Path, seed: int, more: Mapping[str, Any]
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
        loss_type=settings.loss_type,
        importance_sampling_level="sequence" if settings.sequence_importance else "token",
        scale_rewards="none",
        disable_dropout=True,  # games were played without it, so their tokens must be scored without it
        logging_steps=1,
        # With validation, the last step needs a checkpoint in case the validation after it is interrupted.
        save_strategy="steps" if settings.save_steps or settings.validate_every_steps else "no",
        save_steps=settings.save_steps or max(1, settings.steps),
        ddp_find_unused_parameters=False,
        report_to=[],  # see `_reporters`
        log_completions=False,
        **more,
    )
