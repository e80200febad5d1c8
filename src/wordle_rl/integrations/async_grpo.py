"""TRL's asynchronous GRPO: a vLLM server plays without a pause while the trainer learns from what it played before.

    wordle-rl sft CONFIG.toml --out RUN
    VLLM_SERVER_DEV_MODE=1 vllm serve RUN/sft --logprobs-mode processed_logprobs \
        --weight-transfer-config '{"backend": "nccl"}'
    python -m wordle_rl.integrations.async_grpo CONFIG.toml --out RUN --server http://localhost:8000
    wordle-rl run CONFIG.toml --out RUN

TRL brings the trainer, the sending of weights, and a process that keeps the server busy; here that process plays our
games by `rollout`, token for token, with our rewards. Its trainer credits whole games and divides by their spread, so
settings that say otherwise are refused. Its attention is FlashAttention 3, so the trainer's GPU must be a Hopper.
"""

from __future__ import annotations

import json
import random
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any
from urllib.request import urlopen

import torch
import tyro
from datasets import Dataset
from transformers import PrinterCallback
from trl.import_utils import suppress_experimental_warning

from wordle_rl.chat import ChatCodec
from wordle_rl.checks.budgets import outgrown
from wordle_rl.config import ConfigError, ModelSettings, RunConfig, load_config
from wordle_rl.env import random_given
from wordle_rl.models.loading import load_codec
from wordle_rl.outlook import is_trained
from wordle_rl.pipeline import finish_model
from wordle_rl.processes import is_first, part_company, wait_for_all
from wordle_rl.prompt import Shape
from wordle_rl.rollout import Segment, Start, Trajectory, advance, fits, mask_without_overlong, open_game
from wordle_rl.runs import Run, RunError, append_jsonl
from wordle_rl.runs.lineage import LINEAGE_FILE, lesson_of, trained_further
from wordle_rl.samplers.base import Completion
from wordle_rl.samplers.vllm import check_vllm
from wordle_rl.solver import Solver
from wordle_rl.split import split_secrets
from wordle_rl.training.checkpoints import last_checkpoint, save_trained
from wordle_rl.training.interrupt import held_interrupt
from wordle_rl.training.loop import RunCallback, make_scheduler
from wordle_rl.training.optimizer import make_optimizer, wants_bf16
from wordle_rl.words import WordList, WordListError, load_words

with suppress_experimental_warning():
    from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer
    from trl.experimental.async_grpo.async_rollout_worker import (
        AsyncRolloutWorker,
        TrainingSequence,
        _AsyncRolloutLoop,
    )

_NO_DRIFT = {"clean": 0.0, "realign": 0.0, "fork": 0.0, "transitions": 0.0, "drift_tokens": 0.0, "drift_max": 0.0}


class WordleRolloutLoop(_AsyncRolloutLoop):
    """TRL's loop over a server, in a process of its own, with one of our games where TRL would call tools.

    Args:
        config: Every setting.
        run_directory: Where the model of SFT is, and where the secrets are written down.
        max_length: The most tokens the server takes, a reply included.
        given: What TRL's loop takes besides.
    """

    _provides_rollout_reward = True

    def __init__(self, *, config: RunConfig, run_directory: Path, max_length: int, **given: Any) -> None:
        self.config, self._run_directory = config, run_directory
        self.words = load_words(config.words.source)
        self.prompter = config.game.prompter(self.words.word_length)
        self.codec = _codec_of(config, run_directory)
        self._solver = Solver(self.words)
        self._schedule = config.grpo.reward.schedule()
        self._max_prompt_tokens = max_length - config.grpo.sampling.max_completion_tokens
        # TRL wants to know how tool calls are read from a reply; there are none.
        self.codec.tokenizer.response_template = {}
        stops = sorted(self.codec.stop_ids)
        super().__init__(processing_class=self.codec.tokenizer, eos_token_ids=stops, reward_funcs=[], **given)
        self.reward_func_names.append("game")

    async def _generate_one(
        self,
        prompt: list[dict[str, str]],
        tool_dict: dict[str, Any],  # noqa: ARG002  # TRL's signature
        tools: list[Any],  # noqa: ARG002
        group_id: int = 0,
    ) -> tuple[list[dict[str, str]], list[int], list[TrainingSequence], int, int, float | None]:
        """Play one game; a row's prompt is its secret, which the model never sees."""
        started = time.monotonic()
        secret, version = prompt[-1]["content"], self.model_version
        trajectory = await self._game(self._start(secret, group_id))
        row = {"stage": "grpo", "step": version, "process": 0, "secrets": [secret]}
        append_jsonl(self._run_directory / "secrets.jsonl", row)
        reward = self._schedule.rubric_at(version).score(trajectory.transcript, self._solver)
        rollout_id = uuid.uuid4().hex
        sequences = [self._sequence(segment, rollout_id) for segment in trajectory.segments]
        said = [
            token
            for segment in trajectory.segments
            for token, m in zip(segment.token_ids, segment.loss_mask, strict=True)
            if m
        ]
        replies = [turn.reply for turn in trajectory.transcript.own_turns]
        self._push_rollout_metrics(
            turns=len(replies),
            sequences=len(sequences),
            completion_ids=said,
            tally=_NO_DRIFT,
            loop_exhausted=False,
            duration_s=time.monotonic() - started,
        )
        won = float(trajectory.transcript.won)
        self._rates["win_rate"][0] += won
        self._rates["win_rate"][1] += 1.0
        messages = [{"role": "assistant", "content": reply} for reply in replies]
        return messages, said, sequences, 0, 0, reward.total

    def _start(self, secret: str, group_id: int) -> Start:
        """Where a group's games begin, the same for all of them."""
        rng = random.Random(f"{self.config.seed}:{group_id}")
        hard_mode = self.prompter.rules.hard_mode
        return Start(secret, random_given(self.words, secret, rng, self.config.grpo.max_given, hard_mode=hard_mode))

    async def _game(self, start: Start) -> Trajectory:
        """One game, asked of the server turn by turn, its tokens as they were sampled."""
        running = open_game(0, start, self.words, self.prompter, self.codec)
        while running.env.stop_reason is None and fits(running, self._max_prompt_tokens):
            ids, logprobs = await self._generate_one_turn(running.token_log.all_ids())
            text, overlong = self.codec.text_of(ids), ids[-1] not in self.codec.stop_ids
            advance(running, Completion(text, tuple(ids), tuple(logprobs), overlong), self.codec)
        return running.close()

    def _sequence(self, segment: Segment, rollout_id: str) -> TrainingSequence:
        """A row as TRL trains it: prompt and game in one, 1 in the mask on what was sampled."""
        mask = list(segment.loss_mask)
        if self.config.grpo.mask_overlong:
            mask = mask_without_overlong(segment, self.codec.stop_ids)
        before = len(segment.prompt_ids)
        return TrainingSequence(
            input_ids=[*segment.prompt_ids, *segment.token_ids],
            completion_mask=[0] * before + mask,
            old_log_probs=[0.0] * before + list(segment.sampler_logprobs),
            rollout_id=rollout_id,
        )


class WordleRolloutWorker(AsyncRolloutWorker):
    """Starts and stops the process of a `WordleRolloutLoop`, and hands its games to the trainer."""

    _loop_cls = WordleRolloutLoop


def check_settings(config: RunConfig) -> None:
    """Refuse settings that this trainer would not follow.

    Raises:
        ConfigError: With the setting and its mend.
    """
    grpo, given = config.grpo, config.grpo.model_fields_set
    wrong = {
        'algorithm: only "grpo" is trained this way': config.algorithm != "grpo" or grpo.is_skipped,
        'game.shape: games are counted by their rows, one each; set it to "transcript"': (
            config.game.shape is not Shape.TRANSCRIPT
        ),
        'grpo.credit: whole games are credited; set it to "game"': grpo.credit != "game",
        "grpo.scale_advantages: they are divided by the spread of their group; set it to true": (
            not grpo.scale_advantages
        ),
        'grpo.loss_type: a backward pass takes the mean over its tokens; leave it out, or set it to "bnpo"': (
            "loss_type" in given and grpo.loss_type != "bnpo"
        ),
        "grpo.turn_candidates: a turn is sampled once; set it to 1": grpo.turn_candidates > 1,
        "grpo.outside_rate: secrets are answers; set it to 0": grpo.outside_rate > 0,
        "traces.rl_only_share: all training secrets are played; set it to 0": config.traces.rl_only_share > 0,
        "grpo.focus: secrets take turns; leave it out": "focus" in given and grpo.focus > 0,
        "grpo.scout_every_steps: secrets take turns; set it to 0": grpo.scout_every_steps > 0,
        "grpo.max_refills: no group is played anew; leave it out": "max_refills" in given and grpo.max_refills > 0,
        "grpo.replay_games: no teacher games are learnt beside; set it to 0": grpo.replay_games > 0,
        "grpo.beta: there is no reference; set it to 0": grpo.beta > 0,
        "grpo.validate_every_steps: weights are not compared; set it to 0": grpo.validate_every_steps > 0,
        "grpo.max_importance_ratio: ratios are clipped by epsilon alone; leave it out": bool(grpo.max_importance_ratio),
        "grpo.sequence_importance: tokens are weighed one by one; set it to false": grpo.sequence_importance,
        "grpo.reward: weights move on by steps here; set grpo.reward.over_steps": (grpo.reward.schedule().switches),
        "model.lora: whole models are trained here; set model.lora.rank to 0": config.model.lora.rank > 0,
    }
    if problems := [problem for problem, there in wrong.items() if there]:
        raise ConfigError(f"asynchronous GRPO does not follow {'; nor '.join(problems)}")


def make_trainer(
    config: RunConfig,
    run: Run,
    server: str,
    max_length: int,
    callbacks: Callable[[], list[Any]] = list,
    weight_transfer: Any = None,
) -> AsyncGRPOTrainer:
    """TRL's trainer with our games.

    Args:
        config: Every setting.
        run: The run, with its model of SFT.
        server: Address of the vLLM server, which serves that model.
        max_length: The most tokens the server takes.
        callbacks: Makes callbacks of the trainer.
        weight_transfer: How weights reach the server; None: TRL's own way, over NCCL.
    """
    words, grpo, start = load_words(config.words.source), config.grpo, run.directory / "sft"
    secrets = list(split_secrets(words, config.words.split_seed).train)
    random.Random(config.seed).shuffle(secrets)
    games = grpo.groups_per_step * grpo.group_size
    micro = grpo.micro_batch_size or games
    worker = WordleRolloutWorker(
        config=config,
        run_directory=run.directory,
        max_length=max_length,
        model_name=str(start),
        dataset=Dataset.from_dict({"prompt": [[{"role": "user", "content": secret}] for secret in secrets]}),
        num_generations=grpo.group_size,
        max_inflight_tasks=2 * games,
        queue_maxsize=4 * games,
        vllm_server_url=server,
        max_tokens=grpo.sampling.max_completion_tokens,
        temperature=grpo.sampling.temperature,
        top_p=grpo.sampling.top_p,
    )
    arguments = AsyncGRPOConfig(
        output_dir=str(run.directory / "grpo" / "checkpoints"),
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
        learning_rate=grpo.optimizer.learning_rate,
        max_grad_norm=grpo.optimizer.max_grad_norm,
        gradient_checkpointing=grpo.gradient_checkpointing,
        bf16=wants_bf16(grpo.precision),
        use_cpu=not torch.cuda.is_available(),
        save_strategy="steps" if grpo.save_steps else "no",
        save_steps=grpo.save_steps or 500,
        save_total_limit=1,
        vllm_server_base_url=server,
        report_to=list(config.report_to),
        seed=config.seed,
        disable_tqdm=True,
    )
    trainer = AsyncGRPOTrainer(
        model=str(start),
        args=arguments,
        train_dataset=Dataset.from_dict({"prompt": secrets}),
        processing_class=_codec_of(config, run.directory).tokenizer,
        rollout_worker=worker,  # type: ignore[arg-type]  # its queues are of one of the two kinds asked for
        weight_transfer=weight_transfer,
        callbacks=callbacks(),
    )
    assert trainer.model is not None
    trainer.optimizer = make_optimizer(trainer.model, grpo.optimizer)
    trainer.lr_scheduler = make_scheduler(trainer.optimizer, grpo.optimizer, grpo.steps)
    return trainer


def train(config: RunConfig, directory: Path, server: str, weight_transfer: Any = None) -> Path:
    """Train the SFT model of a run and leave the result in `<run>/grpo`, where `wordle-rl run` finds it.

    Returns:
        The model directory.

    Raises:
        ConfigError: If a setting would not be followed, vLLM is not installed, there is no model of SFT, nothing
            answers at the address, or a game may outgrow the server.
    """
    check_settings(config)
    check_vllm("asynchronous GRPO")
    if not (directory / "sft" / LINEAGE_FILE).is_file():
        raise ConfigError(
            f"{directory} has no model of SFT; make it with `wordle-rl sft CONFIG.toml --out {directory}`"
        )
    if is_trained(directory / "grpo"):
        raise ConfigError(f"{directory} has a model of GRPO; remove {directory / 'grpo'} to train it anew")
    max_length, words = server_length(server, str(directory / "sft")), load_words(config.words.source)
    check_length(config, words, _codec_of(config, directory), max_length)
    split = split_secrets(words, config.words.split_seed)
    if is_first():
        Run.create(directory, config, split)
    wait_for_all()
    run = Run(directory)
    with held_interrupt() as stop:
        trainer = make_trainer(
            config,
            run,
            server,
            max_length,
            lambda: [RunCallback(run, "grpo", stop, None, "win_rate")],
            weight_transfer,
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train(resume_from_checkpoint=last_checkpoint(run.directory / "grpo" / "checkpoints"))
    target = run.directory / "grpo"
    save_trained(trainer, _codec_of(config, run.directory), target)
    if is_first():
        finish_model(target, trained_further(directory / "sft", config.game, lesson_of(config.words, split)))
    part_company()
    return target


def server_length(server: str, model: str) -> int:
    """The most tokens a vLLM server takes, a reply included.

    Raises:
        ConfigError: If nothing answers at the address, or it serves another model.
    """
    try:
        with urlopen(f"{server.rstrip('/')}/v1/models", timeout=10.0) as answer:
            served = {str(card["id"]): card["max_model_len"] for card in json.load(answer)["data"]}
    except (OSError, ValueError, KeyError, TypeError):  # nothing there, or something else
        raise ConfigError(f"no vLLM server answers at {server}; start it, or mend --server") from None
    if model not in served:
        raise ConfigError(
            f"{server} serves {', '.join(served) or 'no model'}; start it with --served-model-name {model}"
        )
    return int(served[model])


def check_length(config: RunConfig, words: WordList, codec: ChatCodec, max_length: int) -> None:
    """Refuse a server that does not take a whole game.

    Raises:
        ConfigError: With the setting and its mend.
    """
    name, budget = "grpo.sampling.max_completion_tokens", config.grpo.sampling.max_completion_tokens
    if told := outgrown(words, config.game.prompter(words.word_length), codec, name, budget, "server", max_length):
        raise ConfigError(
            f'{told}; lower it, set game.style to "compact", or start the server with a larger --max-model-len'
        )


def _codec_of(config: RunConfig, run_directory: Path) -> ChatCodec:
    settings = ModelSettings(path=str(run_directory / "sft"), template_kwargs=config.model.template_kwargs)
    return load_codec(settings)[0]


def main(config: Annotated[Path, tyro.conf.Positional], out: Path, server: str = "http://localhost:8000") -> int:
    """Asynchronous GRPO with TRL against a vLLM server that serves the SFT model of a run.

    Args:
        config: The settings, the same as of the run.
        out: The run directory, with its model of SFT.
        server: Address of the server.
    """
    try:
        directory = train(load_config(config), out, server)
    except (ConfigError, RunError, WordListError) as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201  # a command of its own
        return 2
    except KeyboardInterrupt:
        return 130
    print(f"model: {directory}")  # noqa: T201
    return 0


if __name__ == "__main__":
    # The process of rollouts looks its class up by the name of this module, which run as a command is another.
    from wordle_rl.integrations.async_grpo import main as command

    sys.exit(tyro.cli(command))
