"""From rewards to advantages: of each turn within its group, and of the tokens of that turn.

Means over all groups of advantage times score (the gradient of a guess's log-probability), per game, unscaled:

- game: the gradient of the expected reward, times 1 - 1/group_size;
- turn: each turn's part of that gradient, times 1 - the mean of 1/n, where n games have the turn that the baseline is
  taken of. Later turns, which fewer games reach, are shrunk more. Components that are means over turns have a further
  bias: a guess that makes the game longer or shorter changes the shares of turns before it, uncredited;
- guess: the gradient of each turn's own reward, likewise shrunk, as if its guess had no influence on later turns. It is
  biased by all that follows a guess.

Division by the group's standard deviation (`scale`) biases each of them. `tests/train/test_advantages_gradient.py`
proves this by enumeration of a small game.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from wordle_rl.config import ConfigError
from wordle_rl.import_paths import numbers_of, resolve
from wordle_rl.rollout import Segment

TurnValues = tuple[float, ...]
"""One number per own turn of a game."""

_SAME = 1e-9
"""Rewards closer than this are equal: sums of the same numbers may differ by rounding."""


def game_advantages(turn_rewards: Sequence[TurnValues], *, scale: bool = False) -> list[TurnValues]:
    """Credit every turn of a game with the game's reward above the group's mean.

    Args:
        turn_rewards: For each game of the group, the reward of each of its own turns.
        scale: Divide by the group's standard deviation.

    Returns:
        For each game one advantage per turn, the same for all its turns. A group of equal rewards is all zeros.

    Raises:
        ValueError: If the group has fewer than two games, where every advantage would be zero.

    Source: GRPO, arXiv:2402.03300; without the division Dr. GRPO, arXiv:2503.20783.

    Examples:
        >>> game_advantages([(0.0, 1.0), (0.0,)])
        [(0.5, 0.5), (-0.5,)]
    """
    _check_group(turn_rewards)
    totals = [math.fsum(rewards) for rewards in turn_rewards]
    centred = _centred(totals, scale)
    return [(advantage,) * len(rewards) for advantage, rewards in zip(centred, turn_rewards, strict=True)]


def turn_advantages(turn_rewards: Sequence[TurnValues], *, scale: bool = False) -> list[TurnValues]:
    """Credit each turn with the rewards from there on, above the mean of the group's games at that turn.

    A turn that only one game of the group reached has nothing to be compared with; the mean of the turn
    before it (over all games that played that one) is its baseline.

    Args:
        turn_rewards: For each game of the group, the reward of each of its own turns.
        scale: Divide all by the standard deviation of the group's total rewards.

    Returns:
        For each game one advantage per turn.

    Raises:
        ValueError: If the group has fewer than two games.

    Examples:
        >>> turn_advantages([(0.0, 1.0), (0.0, 0.0), (1.0,)])
        [(0.33333333333333337, 0.5), (-0.6666666666666666, -0.5), (0.33333333333333337,)]
    """
    _check_group(turn_rewards)
    returns = [returns_to_go(rewards) for rewards in turn_rewards]
    return _above_the_turns_mean(returns, _divisor([values[0] for values in returns], scale))


def guess_advantages(turn_rewards: Sequence[TurnValues], *, scale: bool = False) -> list[TurnValues]:
    """Credit each turn with its own reward alone, above the mean of the group's games at that turn.

    For rewards that already value a guess for the rest of the game, as regret does: what happens after it is then
    only luck.

    Args:
        turn_rewards: For each game of the group, the reward of each of its own turns.
        scale: Divide all by the standard deviation of the group's total rewards.

    Returns:
        For each game one advantage per turn.

    Raises:
        ValueError: If the group has fewer than two games.

    Examples:
        >>> guess_advantages([(0.0, 1.0), (1.0, 0.0)])
        [(-0.5, 0.5), (0.5, -0.5)]
    """
    _check_group(turn_rewards)
    divisor = _divisor([math.fsum(rewards) for rewards in turn_rewards], scale)
    return _above_the_turns_mean(turn_rewards, divisor)


def returns_to_go(turn_rewards: TurnValues) -> TurnValues:
    """The sum of the rewards from each turn on.

    Examples:
        >>> returns_to_go((0.5, 0.0, 1.0))
        (1.5, 1.0, 1.0)
    """
    total = 0.0
    backwards = []
    for reward in reversed(turn_rewards):
        total += reward
        backwards.append(total)
    return tuple(reversed(backwards))


def _above_the_turns_mean(turn_values: Sequence[TurnValues], divisor: float) -> list[TurnValues]:
    baselines: list[float] = []
    for turn in range(max(len(values) for values in turn_values)):
        reached = [values[turn] for values in turn_values if len(values) > turn]
        alone = len(reached) == 1 and baselines
        baselines.append(baselines[-1] if alone else math.fsum(reached) / len(reached))
    return [tuple(_above(value, baselines[i]) / divisor for i, value in enumerate(values)) for values in turn_values]


def is_constant(advantages: Sequence[TurnValues]) -> bool:
    """True if a group teaches nothing: every advantage is zero."""
    return all(abs(value) < _SAME for values in advantages for value in values)


class Credit(Protocol):
    """An advantage estimator, as those of this file and yours."""

    def __call__(self, turn_rewards: Sequence[TurnValues], *, scale: bool = False) -> list[TurnValues]:
        """One advantage per turn of each game of a group."""


CREDITS: Mapping[str, Credit] = MappingProxyType(
    {"turn": turn_advantages, "guess": guess_advantages, "game": game_advantages}
)
"""By the names that settings use."""


def find_credit(name: str) -> Credit:
    """The estimator that `grpo.credit` names: one of `CREDITS`, or yours by import path, `module:attribute`.

    What yours returns is checked, game by game: one finite number per turn.

    Raises:
        ConfigError: If there is none, or it cannot be called as those here are.
    """
    if name in CREDITS:
        return CREDITS[name]
    own = resolve(name, "grpo.credit", ConfigError, takes="turn_rewards, scale=")

    def credit(turn_rewards: Sequence[TurnValues], *, scale: bool = False) -> list[TurnValues]:
        _check_group(turn_rewards)
        returned = own(turn_rewards, scale=scale)
        found = [numbers_of(values) or () for values in returned] if isinstance(returned, Iterable) else []
        if [*map(len, found)] != [*map(len, turn_rewards)]:
            raise ConfigError(f"grpo.credit {name!r} must return a list with one finite number per turn of each game")
        return found

    return credit


def token_advantages(segment: Segment, advantages: TurnValues) -> list[float]:
    """Broadcast each turn's advantage to its sampled tokens; 0.0 on all others."""
    per_token = [0.0] * len(segment.token_ids)
    for turn, start, stop in segment.spans:
        per_token[start:stop] = [advantages[turn]] * (stop - start)
    return per_token


def _check_group(turn_rewards: Sequence[TurnValues]) -> None:
    if len(turn_rewards) < 2:
        raise ValueError(f"a group of {len(turn_rewards)} has no baseline; group_size must be at least 2")
    if not all(turn_rewards):
        raise ValueError("a game without a turn of its own has no reward")


def _centred(values: Sequence[float], scale: bool) -> list[float]:
    mean = math.fsum(values) / len(values)
    divisor = _divisor(values, scale)
    return [_above(value, mean) / divisor for value in values]


def _above(value: float, mean: float) -> float:
    return 0.0 if abs(value - mean) < _SAME else value - mean


def _divisor(values: Sequence[float], scale: bool) -> float:
    """Divisor of advantages: the standard deviation; 1 without scaling, or where it is only rounding."""
    mean = math.fsum(values) / len(values)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
    return deviation if scale and deviation >= _SAME else 1.0
