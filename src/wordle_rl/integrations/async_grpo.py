"""TRL's asynchronous GRPO: a vLLM server plays without a pause while the trainer learns from what it played before.

    wordle-rl run CONFIG.toml --out RUN --until sft
    VLLM_SERVER_DEV_MODE=1 vllm serve RUN/sft --logprobs-mode processed_logprobs \
        --weight-transfer-config '{"backend": "nccl"}'
    python -m wordle_rl.integrations.async_grpo CONFIG.toml --out RUN --server http://localhost:8000
    wordle-rl run CONFIG.toml --out RUN

TRL brings the trainer, the sending of weights, and a process that keeps the server busy; here that process plays our
games by `rollout`, token for token, with our rewards. Its trainer credits whole games and divides by their std, so
settings that say otherwise are refused. Its attention is FlashAttention 3, so the trainer's GPU must be a Hopper.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Annotated, Any

import tyro
from datasets import Dataset
from transformers import PrinterCallback
from trl.import_utils import suppress_experimental_warning

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.chat.lengths import longest_game
from wordle_rl.cli import console
from wordle_rl.cli.program import Command, Program
from wordle_rl.cli.settings import RunSettings
from wordle_rl.config import ConfigError, GRPOTraining, RunConfig
from wordle_rl.integrations.async_rollouts import WordleRolloutWorker, start_codec
from wordle_rl.integrations.async_settings import AsyncSettings
from wordle_rl.models.gguf import at_directory
from wordle_rl.pipeline import finish_model
from wordle_rl.preflight.before_run import is_trained
from wordle_rl.preflight.model_fit import game_too_long
from wordle_rl.prompt import Shape
from wordle_rl.rl.grpo.train import HEADLINE
from wordle_rl.runs import Run
from wordle_rl.runs.distributed import is_first, leave_process_group, wait_for_all
from wordle_rl.runs.lineage import leak_warning, lesson_of, trained_further
from wordle_rl.runs.logs import rewind
from wordle_rl.samplers.base import check_vllm
from wordle_rl.samplers.vllm_server import served_models
from wordle_rl.train.optimizer import make_optimizer
from wordle_rl.training.checkpoints import last_checkpoint, last_step, save_trained
from wordle_rl.training.guard import StepGuard
from wordle_rl.training.interrupt import StopRequest, held_interrupt
from wordle_rl.training.trainer import RunCallback, WholeCheckpoints, make_scheduler, train_to_end, trainer_arguments
from wordle_rl.words import WordList, load_words

with suppress_experimental_warning():
    from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer

_MODULE = "wordle_rl.integrations.async_grpo"


class WordleAsyncTrainer(WholeCheckpoints, AsyncGRPOTrainer):
    """TRL's trainer, whose guard hears of every loss."""

    guard: StepGuard


def check_settings(config: RunConfig) -> None:
    """Refuse settings that this trainer would not follow.

    Raises:
        ConfigError: With the setting and its fix.
    """
    grpo, rl, given = config.grpo, config.rl, config.grpo.model_fields_set
    wrong = {
        'algorithm: only "grpo" is trained this way': config.algorithm != "grpo" or grpo.is_skipped,
        'game.shape: games are counted by their rows, one each; set it to "transcript"': (
            config.game.shape is not Shape.TRANSCRIPT
        ),
        'grpo.credit: whole games are credited; set it to "game"': grpo.credit != "game",
        "grpo.scale_advantages: they are divided by the std of their group; set it to true": (
            not grpo.scale_advantages
        ),
        'grpo.loss_type: a backward pass takes the mean over its tokens; leave it out, or set it to "bnpo"': (
            "loss_type" in given and grpo.loss_type != "bnpo"
        ),
        "grpo.turn_candidates: a turn is sampled once; set it to 1": grpo.turn_candidates > 1,
        "grpo.outside_rate: secrets are answers; set it to 0": grpo.outside_rate > 0,
        "traces.rl_only_fraction: all training secrets are played; set it to 0": config.traces.rl_only_fraction > 0,
        "rl.starts.file: groups start with secrets that take turns; leave it out": rl.starts.file is not None,
        "grpo.prioritized_fraction: secrets take turns; leave it out": (
            "prioritized_fraction" in given and grpo.prioritized_fraction > 0
        ),
        "grpo.probe_every_steps: secrets take turns; set it to 0": grpo.probe_every_steps > 0,
        "grpo.max_refills: no group is replayed; leave it out": "max_refills" in given and grpo.max_refills > 0,
        "grpo.beta: there is no reference; set it to 0": grpo.beta > 0,
        "grpo.validate_every_steps: weights are not compared; set it to 0": grpo.validate_every_steps > 0,
        "grpo.max_importance_ratio: ratios are clipped by epsilon alone; leave it out": bool(grpo.max_importance_ratio),
        "grpo.sequence_importance: tokens are weighed one by one; set it to false": grpo.sequence_importance,
        "grpo.engine: a vLLM server plays; leave it out": "engine" in given,
        "grpo.vllm: the server is started with its own settings; leave it out": "vllm" in given,
        "rl.sampling.max_batch_size: the server chooses its batches; leave it out": (
            "max_batch_size" in rl.sampling.model_fields_set
        ),
        "rl.sample_games: no sample games are written; leave it out": (
            "sample_games" in rl.model_fields_set and rl.sample_games > 0
        ),
        "rl.reward: weights never switch here; leave out then_preset and then_weights, or name a preset": (
            rl.reward.schedule().end is not None
        ),
        "model.lora: whole models are trained here; set model.lora.rank to 0": config.model.lora.rank > 0,
    }
    if problems := [problem for problem, there in wrong.items() if there]:
        raise ConfigError(f"asynchronous GRPO does not follow {'; nor '.join(problems)}")


def make_trainer(
    config: RunConfig,
    run: Run,
    asynchronous: AsyncSettings,
    max_length: int,
    stop: StopRequest,
    weight_transfer: Any = None,
) -> WordleAsyncTrainer:
    """TRL's trainer with our games.

    Args:
        config: Every setting of the run.
        run: The run, with its model of SFT if it has that stage.
        asynchronous: The vLLM server, which serves that model, and how far it runs ahead.
        max_length: The most tokens the server takes.
        stop: Whether a user has asked for the end.
        weight_transfer: How weights reach the server; None: TRL's own way, over NCCL.
    """
    words, grpo = load_words(config.words.source), config.training
    start = at_directory(config.start_settings(run.directory)).path
    assert isinstance(grpo, GRPOTraining)  # `check_settings` refuses all else
    secrets = list(config.words.split_of(words).train[: config.rl.max_secrets or None])
    random.Random(config.seed).shuffle(secrets)
    games = grpo.groups_per_step * grpo.group_size
    micro = grpo.micro_batch_size or games
    worker = WordleRolloutWorker(
        config=config,
        run_directory=run.directory,
        max_length=max_length,
        model_name=start,
        dataset=Dataset.from_dict({"prompt": [[{"role": "user", "content": secret}] for secret in secrets]}),
        num_generations=grpo.group_size,
        max_inflight_tasks=asynchronous.batches_in_play * games,
        queue_maxsize=asynchronous.batches_queued * games,
        child_ready_timeout=asynchronous.worker_timeout_s,
        request_timeout=asynchronous.request_timeout_s,
        vllm_server_url=asynchronous.server,
        max_tokens=grpo.sampling.max_completion_tokens,
        temperature=grpo.sampling.temperature,
        top_p=grpo.sampling.top_p,
    )
    arguments = AsyncGRPOConfig(
        **trainer_arguments(
            grpo.optimizer,
            grpo.precision,
            grpo.gradient_checkpointing,
            run.directory / "grpo" / "checkpoints",
            config.seed,
        ),
        dtype="float32" if config.model.dtype == "auto" else config.model.dtype,
        num_generations=grpo.group_size,
        max_completion_length=grpo.sampling.max_completion_tokens,
        temperature=grpo.sampling.temperature,
        epsilon=grpo.epsilon,
        epsilon_high=grpo.epsilon_high,
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=games // micro,
        token_budget=0,  # as many games a batch as the settings say
        max_steps=grpo.steps,
        save_strategy="steps" if grpo.save_steps else "no",
        save_steps=grpo.save_steps or 500,
        max_staleness=asynchronous.max_staleness,
        heartbeat_stale_after_s=float(asynchronous.heartbeat_timeout_s),
        vllm_server_base_url=asynchronous.server,
        vllm_server_timeout=asynchronous.server_timeout_s,
        weight_sync_timeout=asynchronous.weight_sync_timeout_s,
        report_to=list(config.report_to),
    )
    guard = StepGuard("grpo")
    trainer = WordleAsyncTrainer(
        model=start,
        args=arguments,
        train_dataset=Dataset.from_dict({"prompt": secrets}),
        processing_class=start_codec(config, run.directory).tokenizer,
        rollout_worker=worker,
        weight_transfer=weight_transfer,
        callbacks=[guard, RunCallback(run, "grpo", stop, None, HEADLINE, guard)],
        guard=guard,
    )
    trainer.remove_callback(PrinterCallback)
    assert trainer.model is not None
    trainer.optimizer = make_optimizer(trainer.model, grpo.optimizer)
    trainer.lr_scheduler = make_scheduler(trainer.optimizer, grpo.optimizer, grpo.steps)
    return trainer


def train(config: RunConfig, directory: Path, asynchronous: AsyncSettings, weight_transfer: Any = None) -> Path:
    """Train what GRPO starts from and leave the result in `<run>/grpo`, where `wordle-rl run` finds it.

    Returns:
        The model directory.

    Raises:
        ConfigError: If a setting would not be followed, vLLM is not installed, there is no model of SFT, nothing
            answers at the address, or a game may outgrow the server.
        RunError: If loss or gradient are not finite for too many steps in a row.
    """
    check_settings(config)
    check_vllm("asynchronous GRPO")
    start = at_directory(config.start_settings(directory)).path
    if config.start == "sft" and not is_trained(directory / "sft"):
        raise ConfigError(
            f"{directory} has no model of SFT; make it with `wordle-rl run CONFIG.toml --out {directory} --until sft`"
        )
    if is_trained(directory / "grpo"):
        raise ConfigError(f"{directory} has a model of GRPO; remove {directory / 'grpo'} to train it again")
    max_length, words = server_length(asynchronous, start), load_words(config.words.source)
    check_length(config, words, start_codec(config, directory), max_length)
    split = config.words.split_of(words)
    if is_first():
        if doubt := leak_warning(Path(start), split):
            console.messages.print(f"model.path {doubt}", highlight=False, soft_wrap=True)
        Run.create(directory, config, split)
    wait_for_all()
    run, target = Run(directory), directory / "grpo"
    checkpoints = target / "checkpoints"
    if is_first():
        rewind(directory, {"metrics.jsonl": {"grpo": last_step(checkpoints) + 1}})
    with held_interrupt() as stop:
        trainer = make_trainer(config, run, asynchronous, max_length, stop, weight_transfer)
        train_to_end(trainer, last_checkpoint(checkpoints), config.grpo.steps)
    trainer.guard.check(checkpoints)
    save_trained(trainer, start_codec(config, run.directory), target)
    if is_first():
        finish_model(target, trained_further(Path(start), config.game, lesson_of(config.words, split)))
    leave_process_group()
    return target


def server_length(asynchronous: AsyncSettings, model: str) -> int:
    """The most tokens a vLLM server takes, a reply included.

    Raises:
        ConfigError: If nothing answers at the address, or it serves another model.
    """
    server = asynchronous.server
    models = served_models(server, timeout_s=asynchronous.lookup_timeout_s)
    if models is None:
        raise ConfigError(f"no vLLM server answers at {server}; start it, or correct --server")
    served = {each.name: each.max_length for each in models}
    if model not in served:
        raise ConfigError(
            f"{server} serves {', '.join(served) or 'no model'}; start it with --served-model-name {model}"
        )
    return served[model]


def check_length(config: RunConfig, words: WordList, codec: ChatCodec, max_length: int) -> None:
    """Refuse a server that does not take a whole game.

    Raises:
        ConfigError: With the setting and its fix.
    """
    budget = config.max_completion_tokens
    game = longest_game(words, config.game.prompter(words.word_length), codec, budget)
    if game > max_length:
        told = game_too_long(budget, game, "server", max_length)
        raise ConfigError(
            f'{told}; lower it, set game.style to "compact", or start the server with a larger --max-model-len'
        )


def async_grpo(
    out: Path,
    settings: Annotated[RunSettings, tyro.conf.arg(name="")] = RunSettings(),
    asynchronous: Annotated[AsyncSettings, tyro.conf.arg(name="")] = AsyncSettings(),
) -> None:
    """Asynchronous GRPO with TRL against a vLLM server that serves the model it starts from.

    Args:
        out: The run directory, with its model of SFT unless `sft.epochs` is 0.
        settings: Config file and settings, the same as of the run.
        asynchronous: The server, and how far it runs ahead.
    """
    directory = train(settings.config(), out, asynchronous)
    console.out.print(f"model: {directory}", highlight=False)


def main(arguments: list[str] | None = None) -> int:
    """Read the arguments as `wordle-rl` reads its own, and train; the exit code."""
    program = Program(f"python -m {_MODULE}", Command(async_grpo, resumes=lambda **_: True))
    return program(sys.argv[1:] if arguments is None else arguments)


if __name__ == "__main__":
    sys.exit(main())
