"""Duration of a run, estimated before it starts: a few batches are timed on this machine and multiplied.

Only for the embedded model on a CPU, whose throwaway copy is made in milliseconds. An estimate is good to about a
factor of 1.5: the timed model is untrained, and batches of a loaded machine vary.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import torch
from transformers import PreTrainedModel

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import GRPOTraining, RunConfig, SamplingSettings
from wordle_rl.config.context import GameContext
from wordle_rl.data.dataset import Example
from wordle_rl.models.device import device_kind
from wordle_rl.models.loading import load_model
from wordle_rl.preflight.before_run import Todo
from wordle_rl.preflight.teacher_sample import teacher_examples
from wordle_rl.rollout import InitialState, play
from wordle_rl.samplers.transformers import TransformersSampler
from wordle_rl.training.optimizer import make_optimizer, wants_bf16

_TIMED_BATCHES = 5
_TIMED_GAMES = 256
_TURNS_OF_A_GAME = 4
"""Turns that a trained model takes, about; an untrained one plays all of them."""
_TEACHER_GAMES_PER_S = 3000
"""Games of the solver teacher on one core; they are a few percent of a run."""


def estimate_seconds(config: RunConfig, context: GameContext, todo: Todo) -> dict[str, float]:
    """Estimate the seconds of each stage that is still to be done; empty where nothing can be timed cheaply.

    No random stream of the run is touched.
    """
    if (
        config.backend != "torch"
        or config.model.path != "tiny"
        or device_kind() != "cpu"
        or not (todo.sft or todo.play)
    ):
        return {}
    with torch.random.fork_rng(devices=[]):
        plain = config.model.model_copy(update={"liger_kernels": False})
        model, codec = load_model(plain, config.seed)
        examples = teacher_examples(config, context, codec)
        per_token = _training_seconds_per_token(model, codec, examples, config)
        per_turn = _sampling_seconds_per_turn(model, codec, context, config.training.sampling)
    tokens = statistics.fmean(len(example.token_ids) for example in examples)
    found: dict[str, float] = {}
    if todo.traces:
        found["teacher games"] = config.traces.num_games / _TEACHER_GAMES_PER_S
    if todo.sft:
        found["SFT"] = config.sft.epochs * config.traces.num_games * tokens * per_token
    settings = config.training
    if todo.play and isinstance(settings, GRPOTraining):
        games = settings.steps * settings.groups_per_step * settings.group_size
        found["GRPO"] = games * (_TURNS_OF_A_GAME * per_turn + tokens * per_token)
    if todo.evaluate:
        found["evaluation"] = len(config.evaluated) * len(context.words.answers) * _TURNS_OF_A_GAME * per_turn
    return found


def _training_seconds_per_token(
    model: PreTrainedModel, codec: ChatCodec, examples: Sequence[Example], config: RunConfig
) -> float:
    """Seconds a token takes in an optimizer step of SFT, from the median of a few steps."""
    optimizer = make_optimizer(model, config.sft.optimizer)
    batch = [examples[place % len(examples)] for place in range(config.sft.batch_size)]
    width = max(len(example.token_ids) for example in batch)
    ids = torch.tensor([[*e.token_ids, *[codec.pad_id] * (width - len(e.token_ids))] for e in batch])  # (B, T)

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=wants_bf16(config.sft.precision)):
            loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return _median_seconds(step, _TIMED_BATCHES) / sum(len(example.token_ids) for example in batch)


def _sampling_seconds_per_turn(
    model: PreTrainedModel, codec: ChatCodec, context: GameContext, sampling: SamplingSettings
) -> float:
    """Seconds a turn of one of many games in lockstep takes."""
    secrets = context.words.answers[:_TIMED_GAMES]
    sampler = TransformersSampler(model.eval(), codec, sampling, 0)
    num_turns = context.prompter.rules.max_turns * len(secrets)

    def games() -> None:
        play([InitialState(secret) for secret in secrets], context.words, context.prompter, sampler)

    return _median_seconds(games, 1) / num_turns


def _median_seconds(work: Callable[[], None], times: int) -> float:
    """The median seconds of some calls, after one that is not counted."""
    work()
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)
