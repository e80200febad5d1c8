"""Teacher games, and plain texts, beside the policy's own games, against forgetting."""

from __future__ import annotations

import math
import random
from pathlib import Path

from wordle_rl.config.stages import DistillSettings, ExpertIterationSettings
from wordle_rl.data.game_record import GameRecord, read_traces
from wordle_rl.policy.sizes import context_length
from wordle_rl.train.example import encode_traces
from wordle_rl.train.plain_text import plain_texts, texts_for
from wordle_rl.train.play_loop import Item, Stage
from wordle_rl.train.round_method import Numbers

_NO_LIMIT = 1 << 30


class Replay:
    """Teacher games of traces.jsonl beside those of a round, different ones in each round while there are enough.

    With a `plain_text_fraction`, plain texts as well.

    Args:
        most: The most own games of any round.
    """

    def __init__(self, stage: Stage, settings: ExpertIterationSettings | DistillSettings, most: int) -> None:
        self._stage, directory = stage, stage.training.run.directory
        fraction = settings.replay_fraction
        self._per_game = fraction / (1 - fraction)  # teacher games per game of the round
        self._most = math.ceil(most * self._per_game)
        count = self._most * settings.rounds
        self._games = draw_games(directory / "traces.jsonl", count, stage.seed) if count else []
        self._text_fraction = settings.plain_text_fraction
        self._most_texts = texts_for(most + self._most, self._text_fraction)

    def add(self, items: list[Item], games: int, number: int) -> tuple[list[Item], Numbers]:
        """Add teacher games to the items made of a number of games in a round; `number` counts from 1."""
        count, first = round(games * self._per_game), (number - 1) * self._most
        chosen = [self._games[(first + i) % len(self._games)] for i in range(count if self._games else 0)]
        learner = self._stage.training.learner
        limit = context_length(learner.model) or _NO_LIMIT
        replayed = encode_traces(chosen, self._stage.setup.prompter, learner.codec, limit).examples
        texts = texts_for(games + len(chosen), self._text_fraction)
        directory = self._stage.training.run.directory
        added = [*replayed, *plain_texts(directory, texts, (number - 1) * self._most_texts)]
        numbers = {"own_examples": float(len(items)), "all_examples": float(len(items) + len(added))}
        return [*items, *([example] for example in added)], numbers


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
