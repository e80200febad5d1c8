"""Replay: teacher games trained on again with those of a round, against forgetting."""

from __future__ import annotations

import math
import random
from pathlib import Path

from transformers import PreTrainedModel

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.data.dataset import Example, encode_traces
from wordle_rl.data.game_record import GameRecord, read_traces
from wordle_rl.policy.loading import context_length
from wordle_rl.runs import Run
from wordle_rl.train.games import GameSetup

_NO_LIMIT = 1 << 30


class Replay:
    """Teacher games added to those of a round, different ones in each round while there are enough.

    Args:
        model: The policy, whose context bounds a game.
        codec: Its tokenizer and template.
        setup: Prompts.
        fraction: Fraction of teacher games among all games of a round, 0 to below 1.
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
        fraction: float,
        most: int,
        rounds: int,
        run: Run,
        seed: int,
    ) -> None:
        self._model, self._codec, self._prompter = model, codec, setup.prompter
        self._per_game = fraction / (1 - fraction)  # teacher games per game of the round
        self._most = math.ceil(most * self._per_game)
        self._games = draw_games(run.directory / "traces.jsonl", self._most * rounds, seed) if self._most else []

    def __call__(self, games: int, number: int) -> list[Example]:
        """The teacher games to add to this many own games in a round; `number` counts from 1."""
        count = round(games * self._per_game)
        if not count or not self._games:
            return []
        first = (number - 1) * self._most
        chosen = [self._games[(first + i) % len(self._games)] for i in range(count)]
        limit = context_length(self._model) or _NO_LIMIT
        return encode_traces(chosen, self._prompter, self._codec, limit).examples


def draw_games(path: Path, count: int, seed: int) -> list[GameRecord]:
    """Draw up to `count` traces from a file, each as likely as any other, in one reading.

    Raises:
        RunError: If the file is missing or damaged.
    """
    rng = random.Random(seed)
    drawn: list[GameRecord] = []
    for place, trace in enumerate(read_traces(path)):
        if place < count:
            drawn.append(trace)
        elif (other := rng.randrange(place + 1)) < count:
            drawn[other] = trace
    rng.shuffle(drawn)
    return drawn
