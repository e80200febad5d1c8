"""Teacher games trained on again while a policy learns by play, so that it does not forget what they show."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import GRPOSettings
from wordle_rl.data.dataset import Example, encode_traces
from wordle_rl.data.trace import Trace, read_traces
from wordle_rl.models.loading import context_length
from wordle_rl.prompt import Prompter
from wordle_rl.rl.setup import GameSetup
from wordle_rl.runs import Run, RunError

_NO_LIMIT = 1 << 30


class Processes(Protocol):
    """Which process this is, from 0, of how many."""

    process_index: int
    num_processes: int


class Replay:
    """Teacher games added to those of a round, different ones in each round while there are enough.

    Args:
        model: The policy, whose context bounds a game.
        codec: Its tokenizer and template.
        setup: Prompts.
        share: Share of teacher games among all games of a round, 0 to below 1.
        most: The most own games of any round.
        rounds: Total number of rounds.
        run: The run whose traces.jsonl holds them.
        seed: Seed of the draw.

    Raises:
        RunError: If there are no traces to draw from.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        codec: ChatCodec,
        setup: GameSetup,
        share: float,
        most: int,
        rounds: int,
        run: Run,
        seed: int,
    ) -> None:
        self._model, self._codec, self._prompter = model, codec, setup.prompter
        self._per_game = share / (1 - share)  # teacher games per game of the round
        self._most = math.ceil(most * self._per_game)
        self._games = draw_games(run.directory / "traces.jsonl", self._most * rounds, seed) if self._most else []

    def __call__(self, games: int, number: int) -> list[Example]:
        """The teacher games to add to so many own games in a round; `number` counts from 1."""
        count = round(games * self._per_game)
        if not count or not self._games:
            return []
        first = (number - 1) * self._most
        chosen = [self._games[(first + i) % len(self._games)] for i in range(count)]
        limit = context_length(self._model) or _NO_LIMIT
        return encode_traces(chosen, self._prompter, self._codec, limit).examples


class ReplayLoss:
    """The SFT loss of a few teacher games per step, to be added to that of RL.

    Args:
        model: The policy, whose context bounds a game.
        codec: Its tokenizer and template.
        prompter: Prompts.
        settings: Steps, and games per step.
        run: The run whose traces.jsonl holds them.
        seed: Seed of the draw.
        among: Which of the processes this is, each of which takes other games; an accelerator will do.

    Raises:
        RunError: If there are no traces to draw from, or the model's context holds none of them.

    Source: PPO-ptx of Ouyang et al. 2022, arXiv:2203.02155.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        codec: ChatCodec,
        prompter: Prompter,
        settings: GRPOSettings,
        run: Run,
        seed: int,
        among: Processes,
    ) -> None:
        self._pad_id, self._weight, self._among = codec.pad_id, settings.replay_weight, among
        self._per_step = settings.replay_games * among.num_processes
        games = draw_games(run.directory / "traces.jsonl", settings.steps * self._per_step, seed)
        limit = context_length(model) or _NO_LIMIT
        self._examples = encode_traces(games, prompter, codec, limit).examples
        if not self._examples:
            raise RunError(f"no game of {run.directory / 'traces.jsonl'} fits into the model's context")
        self.last = 0.0

    def __call__(self, model: torch.nn.Module, step: int, part: int, parts: int) -> Tensor:
        """This process's share of the loss for a part of the games of a step.

        Summed over the parts and averaged over the processes it is the weighted mean loss of all learnt tokens.

        Args:
            model: The policy as the trainer calls it.
            step: Optimizer step, from 0.
            part: Which part of the step's games, from 0.
            parts: Into how many they are divided.
        """
        places = range(step * self._per_step, (step + 1) * self._per_step)
        examples = [self._examples[place % len(self._examples)] for place in places]
        num_learnt = sum(sum(example.loss_mask) for example in examples)
        num_processes = self._among.num_processes
        chosen = examples[self._among.process_index * parts + part :: num_processes * parts]
        width = max(len(example.token_ids) for example in chosen)
        device = next(model.parameters()).device
        ids = torch.tensor([_padded(example.token_ids, width, self._pad_id) for example in chosen], device=device)
        mask = torch.tensor([_padded(example.loss_mask, width, 0) for example in chosen], device=device)
        learnt = mask[:, 1:].bool()  # (B, T - 1)
        # Padding stands on the right, where a causal model does not look.
        logits = model(input_ids=ids, use_cache=False).logits[:, :-1][learnt].float()  # (N, V)
        loss = cross_entropy(logits, ids[:, 1:][learnt], reduction="sum")
        self.last = float(loss.detach()) / int(learnt.sum())
        return loss * (self._weight * num_processes / num_learnt)


def _padded(numbers: list[int], width: int, filling: int) -> list[int]:
    return numbers + [filling] * (width - len(numbers))


def draw_games(path: Path, count: int, seed: int) -> list[Trace]:
    """Draw up to `count` traces from a file, each as likely as any other, in one reading.

    Raises:
        RunError: If the file is missing or damaged.
    """
    rng = random.Random(seed)
    drawn: list[Trace] = []
    for place, trace in enumerate(read_traces(path)):
        if place < count:
            drawn.append(trace)
        elif (other := rng.randrange(place + 1)) < count:
            drawn[other] = trace
    rng.shuffle(drawn)
    return drawn
