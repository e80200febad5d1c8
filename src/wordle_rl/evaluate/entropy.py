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
from dataclasses import replace
from itertools import cycle, islice

from wordle_rl.boards import InitialState
from wordle_rl.config.base import ConfigError
from wordle_rl.evaluate.asked import Asked
from wordle_rl.evaluate.play import evaluate
from wordle_rl.evaluate.players import open_player
from wordle_rl.evaluate.records import ControlFacts, EvaluationError
from wordle_rl.rollout import Trajectory

_GAMES = 1024  # games per estimate
MAX_TEMPERATURE = 4.0
"""Highest temperature to try."""


def nats_of(game: Trajectory) -> float | None:
    """Return minus the log-probability of a game's sampled tokens; None if it has none."""
    return -sum(sum(segment.sampler_logprobs) for segment in game.segments) if game.segments else None


def nats_per_game(games: Sequence[float | None]) -> float:
    """Estimate the entropy of a game in nats from `nats_of` each game."""
    sampled = [nats for nats in games if nats is not None]
    if not sampled:
        raise EvaluationError("no tokens were sampled, so games have no entropy; give a model directory")
    return math.fsum(sampled) / len(sampled)


def at_equal_entropy(asked: Asked, other: Asked, tell: Callable[[str], None]) -> Asked:
    """Ask a model to play at the temperature at which it is as random as another on games of validation secrets.

    Args:
        asked: The model that becomes a control.
        other: The model to match, at its temperature above 0.
        tell: Called with a line for each estimate.

    Raises:
        ConfigError: If one of them is not sampled by transformers, without a limit on its guesses.
    """
    for player in (asked.player, other.player):
        if player.model is None or player.engine != "transformers" or player.constrain != "none":
            raise ConfigError(
                "--match-entropy-of needs models on this machine, sampled by transformers without --constrain; give "
                "their directories, and drop --engine and --constrain"
            )
    # The same secrets for both, whatever words the other one was trained on.
    other = replace(other, context=replace(asked.context, prompter=other.context.prompter))
    temperature = other.player.sampling.temperature
    target = _entropy_of(other, tell)(temperature)
    matched, nats = match_temperature(_entropy_of(asked, tell), target)
    tell(f"temperature {matched:.3g}: {nats:.2f} nats a game, to match {target:.2f}")
    control = ControlFacts("equal_entropy", other.player.name, None, nats, target, temperature)
    return replace(asked, player=asked.player.at(matched), control=control)


def _entropy_of(asked: Asked, tell: Callable[[str], None]) -> Callable[[float], float]:
    # The model is loaded once, and forgotten with the function that is returned: one model in memory at a time.
    from wordle_rl.policy.transformers import TransformersSampler  # brings torch

    secrets = asked.context.split.val
    starts = tuple(map(InitialState, islice(cycle(secrets), _GAMES)))
    with open_player(asked, asked.player.seed) as (own, _):
        assert isinstance(own, TransformersSampler)  # names are those of models

    def entropy(temperature: float) -> float:
        player = asked.player.at(temperature)
        sampler = TransformersSampler(own.model, own.codec, player.sampling, player.seed)
        # A batch size would let the memory that is free decide what is drawn.
        games = replace(asked, player=player, starts=starts, batch_size=None)
        nats = nats_per_game(evaluate(games, lambda _: nullcontext((sampler, None)), nats_of))
        tell(f"{player.name} at temperature {temperature:.3g}: {nats:.2f} nats a game")
        return nats

    return entropy


def match_temperature(
    entropy_at: Callable[[float], float], target: float, *, tolerance: float = 0.01, max_steps: int = 20
) -> tuple[float, float]:
    """Find the temperature of an entropy by false position, halving where that is slow. Return both.

    Args:
        entropy_at: Entropy per game in nats at a temperature above 0; must grow with the temperature.
        target: Entropy to match, in nats, above 0.
        tolerance: Largest difference, as a fraction of the target.
        max_steps: Most temperatures to try. The nearest one wins.
    """
    if not target > 0 or not math.isfinite(target):
        raise EvaluationError(f"an entropy of {target} nats needs a temperature above 0; sample the other model")
    tried: dict[float, float] = {}

    def excess(temperature: float) -> float:
        tried[temperature] = entropy_at(temperature)
        return tried[temperature] - target

    low, below, high = 0.0, -target, 1.0  # greedy play has no entropy
    while (above := excess(high)) < 0:  # double until the target is bracketed
        if high >= MAX_TEMPERATURE:
            raise EvaluationError(
                f"at temperature {high:g} a game has {tried[high]:.2f} nats, less than the {target:.2f} to match; this "
                "player is sharper than the other at any temperature"
            )
        low, below, high = high, above, min(2 * high, MAX_TEMPERATURE)
    last, halve = above, False
    for _ in range(max_steps - len(tried)):
        if abs(last) <= tolerance * target:
            break
        # Where a straight line between the ends of the bracket meets the target; where the curve bends much, the line
        # hardly narrows the bracket, and the next step halves it.
        width = high - low
        middle = (low + high) / 2 if halve else (low * above - high * below) / (above - below)
        last = excess(middle)
        if last < 0:
            low, below = middle, last
        else:
            high, above = middle, last
        halve = not halve and high - low > width / 2
    return min(tried.items(), key=lambda found: abs(found[1] - target))
