"""Equal entropy: find the temperature at which one model's games are as random as another's.

Learning by play makes a policy sharper, and a sharper policy wins more sampled games whatever else it learned. A gain
in sampled play is therefore quoted beside the start model, sampled at the temperature that makes it equally sharp.

The entropy of a game covers all its sampled tokens, in nats: minus the summed log-probabilities under the sampling
distribution, averaged over games. A game that ends sooner has fewer tokens to sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from wordle_rl.boards import InitialState
from wordle_rl.config.model import GameSettings, WordSettings
from wordle_rl.config.training import SamplingSettings
from wordle_rl.evaluate.players import Player, make_player
from wordle_rl.evaluate.records import EvaluationError
from wordle_rl.rollout import Trajectory, play
from wordle_rl.solver import Solver
from wordle_rl.words import load_words

_GAMES = 1024  # games per estimate
MAX_TEMPERATURE = 4.0
"""Highest temperature to try."""


@dataclass(frozen=True)
class EntropyMatch:
    """The matched temperature, its estimated entropy per game in nats, and the entropy to match."""

    temperature: float
    nats: float
    target: float


def nats_per_game(games: Sequence[Trajectory]) -> float:
    """Estimate the entropy of a game in nats."""
    sampled = [sum(sum(segment.sampler_logprobs) for segment in game.segments) for game in games if game.segments]
    if not sampled:
        raise EvaluationError("no tokens were sampled, so games have no entropy; give a model directory")
    return -math.fsum(sampled) / len(sampled)


def match_models(
    names: tuple[str, str],
    games: tuple[GameSettings | None, GameSettings | None],
    sampling: SamplingSettings,
    words: WordSettings,
    seed: int,
    tell: Callable[[str, float, float], None] = lambda *_: None,
) -> EntropyMatch:
    """Find the temperature at which one model is as random as another, on games of validation secrets.

    Args:
        names: The model to sample, and the model to match; directories of models or runs.
        games: Their rules and wording; None: their own.
        sampling: Sampling of the second model, at a temperature above 0.
        words: Word list and split.
        seed: Random seed, the same for both.
        tell: Called after each estimate with the model's name, the temperature and the nats per game.
    """
    from wordle_rl.policy.transformers import TransformersSampler  # brings torch

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
        sampler = TransformersSampler(own.model, own.codec, at, seed)
        nats = nats_per_game(play([InitialState(secret) for secret in repeated], listed, player.prompter, sampler))
        tell(name, temperature, nats)
        return nats

    players: dict[str, Player] = {}
    target = entropy(names[1], games[1], sampling.temperature)
    players.clear()  # one model in memory at a time
    return match_temperature(lambda temperature: entropy(names[0], games[0], temperature), target)


def match_temperature(
    entropy_at: Callable[[float], float], target: float, *, tolerance: float = 0.01, max_steps: int = 20
) -> EntropyMatch:
    """Find the temperature of an entropy by false position, halving where that is slow.

    Args:
        entropy_at: Entropy per game in nats at a temperature above 0; must grow with the temperature.
        target: Entropy to match, in nats, above 0.
        tolerance: Largest difference, as a fraction of the target.
        max_steps: Most temperatures to try. The nearest one wins.
    """
    if not target > 0 or not math.isfinite(target):
        raise EvaluationError(f"an entropy of {target} nats needs a temperature above 0; sample the other model")
    low, below = 0.0, -target  # greedy play has no entropy
    high = 1.0
    tried: list[EntropyMatch] = []
    while (found := entropy_at(high)) < target:  # double until the target is bracketed
        tried.append(EntropyMatch(high, found, target))
        if high >= MAX_TEMPERATURE:
            raise EvaluationError(
                f"at temperature {high:g} a game has {found:.2f} nats, less than the {target:.2f} to match; this "
                "player is sharper than the other at any temperature"
            )
        low, below = high, found - target
        high = min(2 * high, MAX_TEMPERATURE)
    tried.append(EntropyMatch(high, found, target))
    above, halve = found - target, False
    while len(tried) < max_steps and abs(tried[-1].nats - target) > tolerance * target:
        # Where a straight line between the ends of the bracket meets the target; where the curve bends much, the line
        # hardly narrows the bracket, and the next step halves it.
        width = high - low
        middle = (low + high) / 2 if halve else (low * above - high * below) / (above - below)
        found = entropy_at(middle)
        tried.append(EntropyMatch(middle, found, target))
        if found < target:
            low, below = middle, found - target
        else:
            high, above = middle, found - target
        halve = not halve and high - low > width / 2
    return min(tried, key=lambda match: abs(match.nats - target))
