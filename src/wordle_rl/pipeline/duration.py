"""Duration of a run, estimated before it starts: a few batches are timed on this machine and multiplied.

Only for the embedded model on a CPU, whose throwaway copy is made in milliseconds. An estimate is good to about a
factor of 1.5: the timed model is untrained, and batches of a loaded machine vary.
"""

from __future__ import annotations

import statistics
from dataclasses import replace

import torch

from wordle_rl.config import GRPOTraining, RunConfig
from wordle_rl.config.context import GameContext
from wordle_rl.models.device import device_kind
from wordle_rl.models.loading import load_model
from wordle_rl.pipeline.cost_probe import measure, play_seconds, sft_seconds_per_token
from wordle_rl.pipeline.token_costs import StepSize, grpo_step_seconds
from wordle_rl.preflight.before_run import Todo
from wordle_rl.preflight.teacher_sample import reply_lengths, teacher_examples
from wordle_rl.rollout import InitialState

_TIMES = 5
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
    found: dict[str, float] = {}
    with torch.random.fork_rng(devices=[]):
        plain = config.model.model_copy(update={"liger_kernels": False})
        model, codec = load_model(plain, config.seed)
        examples = teacher_examples(config, context, codec)
        tokens = statistics.fmean(len(example.token_ids) for example in examples)
        if todo.traces:
            found["teacher games"] = config.traces.num_games / _TEACHER_GAMES_PER_S
        if todo.sft:
            per_token = sft_seconds_per_token(model, codec, examples, config.sft, _TIMES)
            found["SFT"] = config.sft.epochs * config.traces.num_games * tokens * per_token
        settings = config.training
        if todo.play and isinstance(settings, GRPOTraining):
            probe = measure(model, codec, context, settings, config.sft, examples, times=1)
            reply = statistics.fmean(reply_lengths(examples))
            game = replace(probe.game, turns=_TURNS_OF_A_GAME, reply=reply)
            found["GRPO"] = settings.steps * sum(grpo_step_seconds(probe.costs, game, StepSize.of(settings)).values())
        if todo.evaluate:
            starts = [InitialState(secret) for secret in context.words.answers[:_TIMED_GAMES]]
            played_s, _ = play_seconds(model, codec, context, settings.sampling, starts, 1)
            per_turn = played_s / (context.prompter.rules.max_turns * len(starts))
            games = len(config.evaluated) * len(context.words.answers) * (2 if config.eval.sampled else 1)
            found["evaluation"] = games * _TURNS_OF_A_GAME * per_turn
    return found
