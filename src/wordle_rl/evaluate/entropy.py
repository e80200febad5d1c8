"""Equal entropy: find the temperature at which one model's games are as random as another's.

Learning by play makes a policy sharper, and a sharper policy wins more sampled games whatever else it learned. A gain
in sampled play is therefore quoted beside the start model, sampled at the temperature that makes it equally sharp.

The entropy of a game covers all its sampled tokens, in nats: minus the summed log-probabilities under the sampling
distribution, averaged over games. A game that ends sooner has fewer tokens to sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import cycle, islice

from wordle_rl.boards import InitialState
from wordle_rl.evaluate.asked import Asked
from wordle_rl.evaluate.play import evaluate
from wordle_rl.evaluate.players import open_player
from wordle_rl.evaluate.records import EvaluationError
from wordle_rl.rollout import Trajectory

_GAMES = 1024  # games per estimate
MAX_TEMPERATURE = 4.0
"""Highest temperature to try."""


@dataclass(frozen=True)
class EntropyMatch:
    """The matched temperature, its estimated entropy per game in nats, and the entropy to match."""

    temperature: float
    nats: float
    target: float


def nats_per_game(games: Sequence[float | None]) -> float:
    """Estimate the entropy of a game in nats from `nats_of` each game."""
    sampled = [nats for nats in games if nats is not None]
    if not sampled:
        raise EvaluationError("no tokens were sampled, so games have no entropy; give a model directory")
    return math.fsum(sampled) / len(sampled)


def nats_of(game: Trajectory) -> float | None:
    """Return minus the log-probability of a game's sampled tokens; None if it has none."""
    return -sum(sum(segment.sampler_logprobs) for segment in game.segments) if game.segments else None


def match_models(
    asked: Asked, other: Asked, tell: Callable[[str, float, float], None] = lambda *_: None
) -> EntropyMatch:
    """Find the temperature at which one model is as random as another, on games of validation secrets.

    Args:
        asked: The model to sample.
        other: The model to match, at its temperature above 0. Both are models on this machine.
        tell: Called after each estimate with the model's name, the temperature and the nats per game.
    """
    target = _entropy_of(other, tell)(other.player.sampling.temperature)
    return match_temperature(_entropy_of(asked, tell), target)


def _entropy_of(asked: Asked, tell: Callable[[str, float, float], None]) -> Callable[[float], float]:
    # The model is loaded once, and forgotten with the function that is returned: one model in memory at a time.
    from wordle_rl.policy.transformers import TransformersSampler  # brings torch

    secrets = asked.context.split.val
    starts = tuple(map(InitialState, islice(cycle(secrets), _GAMES)))
    with open_player(asked, asked.player.seed) as (own, _):
        assert isinstance(own, TransformersSampler)  # names are those of models

    def entropy(temperature: float) -> float:
        at = asked.player.sampling.model_copy(update={"temperature": temperature})
        sampler = TransformersSampler(own.model, own.codec, at, asked.player.seed)
        # A batch size would let the memory that is free decide what is drawn.
        games = replace(asked, player=replace(asked.player, sampling=at), starts=starts, batch_size=None)
        nats = nats_per_game(evaluate(games, lambda _: nullcontext((sampler, None)), nats_of))
        tell(asked.player.name, temperature, nats)
        return nats

    return entropy


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
