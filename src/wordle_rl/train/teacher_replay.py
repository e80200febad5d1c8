"""Teacher games beside the policy's own, against forgetting."""

from __future__ import annotations

import math
import random
from pathlib import Path

from wordle_rl.data.game_record import GameRecord, read_traces
from wordle_rl.policy.sizes import context_length
from wordle_rl.train.example import encode_traces
from wordle_rl.train.play_loop import Item, Stage
from wordle_rl.train.round_method import Numbers

_NO_LIMIT = 1 << 30


class Replay:
    """Teacher games of traces.jsonl beside those of a round, different ones in each round while there are enough.

    Args:
        fraction: Fraction of teacher games among all games of a round, 0 to below 1.
        most: The most own games of any round.
        rounds: Rounds of the training.
    """

    def __init__(self, stage: Stage, fraction: float, most: int, rounds: int) -> None:
        self._stage = stage
        self._per_game = fraction / (1 - fraction)  # teacher games per game of the round
        self._most = math.ceil(most * self._per_game)
        count, path = self._most * rounds, stage.training.run.directory / "traces.jsonl"
        self._games = draw_games(path, count, stage.seed) if count else []

    def add(self, items: list[Item], games: int, number: int) -> tuple[list[Item], Numbers]:
        """Add teacher games to the items made of a number of games in a round; `number` counts from 1."""
        count, first = round(games * self._per_game), (number - 1) * self._most
        chosen = [self._games[(first + i) % len(self._games)] for i in range(count if self._games else 0)]
        learner = self._stage.training.learner
        limit = context_length(learner.model) or _NO_LIMIT
        replayed = encode_traces(chosen, self._stage.setup.prompter, learner.codec, limit).examples
        numbers = {"own_examples": float(len(items)), "all_examples": float(len(items) + len(replayed))}
        return [*items, *([example] for example in replayed)], numbers


def draw_games(path: Path, count: int, seed: int) -> list[GameRecord]:
    """Draw up to `count` traces from a file, each as likely as any other, in one reading."""
    rng = random.Random(seed)
    drawn: list[GameRecord] = []
    for place, trace in enumerate(read_traces(path)):  # reservoir sampling
        if place < count:
            drawn.append(trace)
        elif (other := rng.randrange(place + 1)) < count:
            drawn[other] = trace
    rng.shuffle(drawn)
    return drawn
