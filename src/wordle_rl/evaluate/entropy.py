"""Equal entropy: the temperature at which one model's games are as random as another's.

A policy that learns by play gets sharper, and a sharper policy wins more when it is sampled, whatever else it changed.
So a gain in sampled play is quoted beside the start drawn at the temperature at which it is as sharp as the trained
model.

The entropy of a game is that of all its sampled tokens together, in nats: the mean over games of minus the summed
log-probabilities under the distribution the tokens were drawn from. A game that ends sooner has fewer tokens to draw.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from wordle_rl.config import GameSettings, SamplingSettings, WordSettings
from wordle_rl.evaluate.players import Player, make_player
from wordle_rl.evaluate.records import EvaluationError
from wordle_rl.prompt import Prompter
from wordle_rl.rollout import InitialState, Trajectory, play
from wordle_rl.samplers.base import Sampler
from wordle_rl.solver import Solver
from wordle_rl.words import WordList, load_words

_GAMES = 2048
"""Games by which the entropy at one temperature is estimated."""
MAX_TEMPERATURE = 4.0
"""The highest temperature looked at."""


@dataclass(frozen=True)
class EntropyMatch:
    """The temperature found, and the entropies per game in nats that were estimated there and asked for."""

    temperature: float
    nats: float
    target: float


def nats_per_game(games: Sequence[Trajectory]) -> float:
    """Estimated entropy of a game in nats.

    Raises:
        EvaluationError: If there is no game, or games hold no tokens.
    """
    sampled = [sum(sum(segment.sampler_logprobs) for segment in game.segments) for game in games if game.segments]
    if not sampled:
        raise EvaluationError("no tokens were sampled, so games have no entropy; give a model directory")
    return -math.fsum(sampled) / len(sampled)


def entropy_of(sampler: Sampler, secrets: Sequence[str], words: WordList, prompter: Prompter) -> float:
    """Entropy per game of a player in nats, from one game per secret; repeats are played again."""
    return nats_per_game(play([InitialState(secret) for secret in secrets], words, prompter, sampler))


def match_models(
    names: tuple[str, str],
    games: tuple[GameSettings | None, GameSettings | None],
    sampling: SamplingSettings,
    words: WordSettings,
    seed: int,
) -> EntropyMatch:
    """Find the temperature at which one model is as random as another, on games of validation secrets.

    Args:
        names: The model to be drawn, and the one it is to be as random as; directories of models or runs.
        games: Their rules and wording; None: their own.
        sampling: How the second is sampled, at a temperature above 0.
        words: Word list and split.
        seed: Seed of all draws; both are drawn alike.

    Raises:
        ConfigError: If there is no such model.
        EvaluationError: If no temperature does.
    """
    from wordle_rl.samplers.transformers import TransformersSampler  # brings torch

    listed = load_words(words.source)
    secrets = words.split_of(listed).val
    repeated = (secrets * -(-_GAMES // len(secrets)))[:_GAMES]
    solver = Solver(listed)

    def entropy(name: str, game: GameSettings | None, temperature: float) -> float:
        if name not in players:
            players[name] = make_player(name, listed, game, sampling, solver=solver, seed=seed)
        player = players[name]
        own = player.sampler
        assert isinstance(own, TransformersSampler)  # names are those of models
        at = sampling.model_copy(update={"temperature": temperature})
        return entropy_of(TransformersSampler(own.model, own.codec, at, seed), repeated, listed, player.prompter)

    players: dict[str, Player] = {}
    target = entropy(names[1], games[1], sampling.temperature)
    players.clear()  # one model in memory at a time
    return match_temperature(lambda temperature: entropy(names[0], games[0], temperature), target)


def match_temperature(
    entropy_at: Callable[[float], float], target: float, *, tolerance: float = 0.01, max_steps: int = 20
) -> EntropyMatch:
    """Find the temperature of an entropy by bisection.

    Args:
        entropy_at: Entropy per game at a temperature above 0, in nats; it must grow with the temperature.
        target: The entropy wanted, in nats, above 0.
        tolerance: Largest difference from the target, as a fraction of it.
        max_steps: Most temperatures tried; the nearest of them is taken.

    Raises:
        EvaluationError: If the target is no positive number, or lies above the entropy at `MAX_TEMPERATURE`.
    """
    if not target > 0 or not math.isfinite(target):
        raise EvaluationError(f"an entropy of {target} nats is that of no temperature above 0; sample the other model")
    low, high = 0.0, 1.0
    tried: list[EntropyMatch] = []
    while (found := entropy_at(high)) < target:
        tried.append(EntropyMatch(high, found, target))
        if high >= MAX_TEMPERATURE:
            raise EvaluationError(
                f"at temperature {high:g} a game has {found:.2f} nats, fewer than the {target:.2f} wanted; this player "
                "is sharper than the other at any temperature"
            )
        low, high = high, min(2 * high, MAX_TEMPERATURE)
    tried.append(EntropyMatch(high, found, target))
    while len(tried) < max_steps and abs(tried[-1].nats - target) > tolerance * target:
        middle = (low + high) / 2
        found = entropy_at(middle)
        tried.append(EntropyMatch(middle, found, target))
        low, high = (middle, high) if found < target else (low, middle)
    return min(tried, key=lambda match: abs(match.nats - target))
