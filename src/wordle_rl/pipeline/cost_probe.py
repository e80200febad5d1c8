"""Seconds that a token takes on this machine, measured by a few games that the model plays and is trained on.

The games of one step are played in lockstep, as a run plays them, by the model that it starts from: games that agree so
far share their work, so that a trained model's tokens are cheaper than an untrained one's. No weight changes.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import GRPOTraining, OptimizerSettings, SamplingSettings, SFTSettings
from wordle_rl.config.context import GameContext
from wordle_rl.data.dataset import Example
from wordle_rl.pipeline.token_costs import GameTokens, TokenCosts
from wordle_rl.rollout import InitialState, Segment, Trajectory, play
from wordle_rl.samplers.transformers import TransformersSampler
from wordle_rl.training.optimizer import make_optimizer, wants_bf16
from wordle_rl.training.shared_forward import learnt_logits

_MICRO_BATCHES = 4
"""Micro-batches that are timed, from the longest games to the shortest."""


@dataclass(frozen=True, slots=True)
class Probe:
    """Costs of this machine and model, and the tokens of the games they were measured on."""

    costs: TokenCosts
    game: GameTokens


def measure(
    model: PreTrainedModel,
    codec: ChatCodec,
    context: GameContext,
    grpo: GRPOTraining,
    sft: SFTSettings,
    examples: Sequence[Example],
    *,
    times: int = 3,
    seed: int = 0,
) -> Probe:
    """Measure the costs of a run's tokens.

    Args:
        model: The model that GRPO starts from.
        codec: Its tokenizer and template.
        context: Words, split and prompts.
        grpo: Groups, group size, sampling, micro-batches, precision.
        sft: Batches and precision of SFT.
        examples: Teacher games.
        times: Each part is timed this often, once more beforehand; the median counts.
        seed: Seed of the sampling.
    """
    play_s, trajectories = _play(model, codec, context, grpo, times, seed)
    game = tokens_of(trajectories)
    segments = [segment for trajectory in trajectories for segment in trajectory.segments]
    batches = _micro_batches(segments, codec.pad_id, grpo.micro_batch_size)
    tokens = sum(int(attention.sum()) for _, attention, _ in batches)
    bf16 = wants_bf16(grpo.precision)
    prefill_s = median_seconds(lambda: _read(model, batches, bf16), times) / tokens
    training_s = median_seconds(lambda: _learn(model, batches, bf16), times) / tokens
    read = grpo.groups_per_step * game.prompt + len(trajectories) * game.fed_back
    decode_s = max(0.0, play_s - read * prefill_s) / (len(trajectories) * game.sampled)
    update_s = _update_seconds(model, grpo.optimizer, batches[0], bf16, times)
    model.zero_grad()
    sft_s = sft_seconds_per_token(model, codec, examples, sft, times)
    return Probe(TokenCosts(prefill_s, decode_s, training_s, sft_s, update_s), game)


def tokens_of(trajectories: Sequence[Trajectory]) -> GameTokens:
    """Mean tokens of played games. In state shape the feedback is the whole prompt of a later turn."""
    played = [trajectory.segments for trajectory in trajectories if trajectory.segments]
    segments = [segment for game in played for segment in game]
    num_turns = sum(len(segment.spans) for segment in segments)
    sampled = sum(sum(segment.loss_mask) for segment in segments)
    opening = sum(len(game[0].prompt_ids) for game in played)
    fed_back = sum(len(segment.prompt_ids) + len(segment.token_ids) for segment in segments) - opening - sampled
    return GameTokens(
        prompt=opening / len(played),
        turns=num_turns / len(played),
        reply=sampled / num_turns,
        feedback=fed_back / max(1, num_turns - len(played)),
    )


def sft_seconds_per_token(
    model: PreTrainedModel, codec: ChatCodec, examples: Sequence[Example], sft: SFTSettings, times: int
) -> float:
    """Seconds of a token in an optimizer step of SFT, from batches of games of similar length. No weight is changed."""
    size = min(sft.batch_size, len(examples))
    by_length = sorted(examples, key=lambda example: len(example.token_ids), reverse=True)
    first = range(0, len(by_length) - size + 1, size)
    batches = [by_length[place : place + size] for place in _spaced(first, _MICRO_BATCHES)]
    bf16 = wants_bf16(sft.precision)
    optimizer = _frozen(make_optimizer(model, sft.optimizer))
    model.train()

    def steps() -> None:
        for batch in batches:
            width = max(len(example.token_ids) for example in batch)
            ids = _padded([example.token_ids for example in batch], width, codec.pad_id, model)  # (B, T)
            mask = _padded([example.loss_mask for example in batch], width, 0, model)  # (B, T)
            inputs = {"input_ids": ids, "labels": ids.masked_fill(mask == 0, -100)}
            with torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
                logits, targets, _ = learnt_logits(model, inputs, bf16=bf16)
                loss = torch.nn.functional.cross_entropy(logits, targets)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    return median_seconds(steps, times) / sum(len(example.token_ids) for batch in batches for example in batch)


def median_seconds(work: Callable[[], object], times: int) -> float:
    """The median seconds of some calls, after one that is not counted."""
    work()
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        _wait()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def play_seconds(
    model: PreTrainedModel,
    codec: ChatCodec,
    context: GameContext,
    sampling: SamplingSettings,
    starts: Sequence[InitialState],
    times: int,
    seed: int = 0,
) -> tuple[float, list[Trajectory]]:
    """The median seconds of games in lockstep, and the games of the last time."""
    sampler = TransformersSampler(model.eval(), codec, sampling, seed)
    played: list[Trajectory] = []

    def games() -> None:
        played[:] = play(starts, context.words, context.prompter, sampler)

    return median_seconds(games, times), played


def _play(
    model: PreTrainedModel, codec: ChatCodec, context: GameContext, grpo: GRPOTraining, times: int, seed: int
) -> tuple[float, list[Trajectory]]:
    """The games of one step: a group for each of the first training secrets."""
    secrets = context.split.train
    drawn = [secrets[place % len(secrets)] for place in range(grpo.groups_per_step)]
    starts = [InitialState(secret) for secret in drawn for _ in range(grpo.group_size)]
    return play_seconds(model, codec, context, grpo.sampling, starts, times, seed)


_MicroBatch = tuple[Tensor, Tensor, Tensor]
"""Token ids, 1 where there is a token, 1 where the policy sampled it; each of shape (B, T)."""


def _micro_batches(segments: Sequence[Segment], pad_id: int, size: int) -> list[_MicroBatch]:
    """Some micro-batches of games of similar length, padded on the right."""
    ordered = sorted(segments, key=lambda s: len(s.prompt_ids) + len(s.token_ids), reverse=True)
    size = min(size or len(ordered), len(ordered))
    first = range(0, len(ordered) - size + 1, size)
    found = []
    for place in _spaced(first, _MICRO_BATCHES):
        rows = ordered[place : place + size]
        ids = [[*row.prompt_ids, *row.token_ids] for row in rows]
        width = max(map(len, ids))
        sampled = [[0] * len(row.prompt_ids) + list(row.loss_mask) for row in rows]
        there = [[1] * len(row) for row in ids]
        found.append((_padded(ids, width, pad_id), _padded(there, width, 0), _padded(sampled, width, 0)))
    return found


def _read(model: PreTrainedModel, batches: Sequence[_MicroBatch], bf16: bool) -> None:
    model.eval()
    for ids, attention, _ in batches:
        with torch.no_grad(), torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
            model(input_ids=ids.to(model.device), attention_mask=attention.to(model.device), use_cache=False)


def _learn(model: PreTrainedModel, batches: Sequence[_MicroBatch], bf16: bool) -> None:
    """Forward and backward of a loss of GRPO's cost: log-probabilities of the sampled tokens, and their entropy."""
    model.train()
    for ids, attention, sampled in batches:
        ids, attention, sampled = (each.to(model.device) for each in (ids, attention, sampled))
        with torch.autocast(model.device.type, torch.bfloat16, enabled=bf16):
            logits = model(input_ids=ids, attention_mask=attention, use_cache=False).logits[:, :-1]
        logprobs = logits.float().log_softmax(-1)  # (B, T - 1, V)
        with torch.no_grad():
            (logprobs.exp() * logprobs).sum(-1)
        chosen = logprobs.gather(-1, ids[:, 1:, None])[..., 0]  # (B, T - 1)
        loss = -(chosen * sampled[:, 1:]).sum() / sampled.sum()
        loss.backward()


def _update_seconds(
    model: PreTrainedModel, settings: OptimizerSettings, batch: _MicroBatch, bf16: bool, times: int
) -> float:
    optimizer = _frozen(make_optimizer(model, settings))
    _learn(model, [batch], bf16)
    return median_seconds(optimizer.step, times)


def _frozen(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """The optimizer with a learning rate and a weight decay of 0: it computes its steps and changes no weight."""
    for group in optimizer.param_groups:
        group["lr"] = group["weight_decay"] = 0.0
    return optimizer


def _padded(rows: Sequence[Sequence[int]], width: int, fill: int, model: PreTrainedModel | None = None) -> Tensor:
    padded = torch.tensor([[*row, *[fill] * (width - len(row))] for row in rows])
    return padded if model is None else padded.to(model.device)


def _spaced(places: range, count: int) -> list[int]:
    """At most `count` of the places, evenly spaced, the first among them."""
    step = max(1, -(-len(places) // count))
    return list(places[::step])


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
