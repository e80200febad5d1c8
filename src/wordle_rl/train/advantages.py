"""Advantages: compare the games of a group, turn by turn, and broadcast the result to tokens.

Three estimators, and the gradient that each gives in expectation (per game, without `scale`):

- game: the gradient of the expected reward, times 1 - 1/group_size.
- turn: each turn's part of that gradient, times 1 - mean(1/n), where n games of the group reached the turn. Fewer games
  reach later turns, so these shrink more. Reward components that average over turns add a bias: a guess that changes
  the length of the game changes the weight of earlier turns, for which it gets no credit.
- guess: the gradient of each turn's own reward, shrunk in the same way. It ignores what a guess does to later turns.

Dividing by the group's standard deviation (`scale`) biases all three. `tests/train/test_advantages_gradient.py`
enumerates a small game to check these statements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from wordle_rl.chat.masks import Segment
from wordle_rl.config.base import ConfigError
from wordle_rl.import_paths import numbers_of, resolve

TurnValues = tuple[float, ...]
"""One number per own turn of a game."""
Credit = Callable[..., list[TurnValues]]
"""An advantage estimator, one of this file or your own: `credit(turn_rewards, *, scale=False)`.

It gets the reward of each own turn of each game of a group, and returns an advantage for each of these turns.
"""

_SAME = 1e-9
"""Treat rewards closer than this as equal: sums of the same numbers differ by rounding."""


def game_advantages(turn_rewards: Sequence[TurnValues], *, scale: bool = False) -> list[TurnValues]:
    """Credit every turn of a game with the game's total reward minus the group's mean.

    `scale` divides by the group's standard deviation.

    Source: GRPO, arXiv:2402.03300; Dr. GRPO, arXiv:2503.20783, drops the division.

    Examples:
        >>> game_advantages([(0.0, 1.0), (0.0,)])
        [(0.5, 0.5), (-0.5,)]
    """
    _check_group(turn_rewards)
    totals = [math.fsum(rewards) for rewards in turn_rewards]
    mean, divisor = math.fsum(totals) / len(totals), _divisor(totals, scale)
    # The mean holds the game itself, which shrinks the gradient by 1 - 1/n but leaves its direction.
    centred = [_above(total, mean) / divisor for total in totals]
    return [(advantage,) * len(rewards) for advantage, rewards in zip(centred, turn_rewards, strict=True)]


def turn_advantages(turn_rewards: Sequence[TurnValues], *, scale: bool = False) -> list[TurnValues]:
    """Credit each turn with its reward-to-go minus the mean over the group's games that reached that turn.

    If a single game reached a turn, the baseline of the turn before is used again. `scale` divides by the standard
    deviation of the group's total rewards.

    Examples:
        >>> turn_advantages([(0.0, 1.0), (0.0, 0.0), (1.0,)])
        [(0.33333333333333337, 0.5), (-0.6666666666666666, -0.5), (0.33333333333333337,)]
    """
    _check_group(turn_rewards)
    returns = [returns_to_go(rewards) for rewards in turn_rewards]
    return _above_the_turns_mean(returns, _divisor([values[0] for values in returns], scale))


def guess_advantages(turn_rewards: Sequence[TurnValues], *, scale: bool = False) -> list[TurnValues]:
    """Credit each turn with its own reward minus the mean over the group's games that reached that turn.

    Use it with rewards that already value a guess for the rest of the game, such as regret. What happens afterwards is
    then only luck.

    Examples:
        >>> guess_advantages([(0.0, 1.0), (1.0, 0.0)])
        [(-0.5, 0.5), (0.5, -0.5)]
    """
    _check_group(turn_rewards)
    divisor = _divisor([math.fsum(rewards) for rewards in turn_rewards], scale)
    return _above_the_turns_mean(turn_rewards, divisor)


def returns_to_go(turn_rewards: TurnValues) -> TurnValues:
    """Sum the rewards from each turn to the end.

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
        # A lone game would be its own baseline and get no signal at all.
        alone = len(reached) == 1 and baselines
        baselines.append(baselines[-1] if alone else math.fsum(reached) / len(reached))
    return [tuple(_above(value, baselines[i]) / divisor for i, value in enumerate(values)) for values in turn_values]


def is_constant(advantages: Sequence[TurnValues]) -> bool:
    """True if every advantage is zero, so that there is nothing to learn from the group."""
    return all(abs(value) < _SAME for values in advantages for value in values)


CREDITS: Mapping[str, Credit] = MappingProxyType(
    {"turn": turn_advantages, "guess": guess_advantages, "game": game_advantages}
)
"""Estimators by the name that `grpo.credit` uses."""


def find_credit(name: str) -> Credit:
    """Return the estimator that `grpo.credit` names: a key of `CREDITS`, or an import path `module:attribute`.

    The values that your own estimator returns are checked: one finite number per turn of each game.
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
    """Broadcast each turn's advantage to its sampled tokens; all other tokens get 0.0."""
    per_token = [0.0] * len(segment.token_ids)
    for turn, start, stop in segment.spans:
        per_token[start:stop] = [advantages[turn]] * (stop - start)
    return per_token


def _check_group(turn_rewards: Sequence[TurnValues]) -> None:
    if len(turn_rewards) < 2:
        raise ValueError(f"a group of {len(turn_rewards)} game(s) has no baseline; set group_size to at least 2")
    if not all(turn_rewards):
        raise ValueError("a game in turn_rewards has no turns; leave out games without a turn of their own")


def _above(value: float, mean: float) -> float:
    return 0.0 if abs(value - mean) < _SAME else value - mean


def _divisor(values: Sequence[float], scale: bool) -> float:
    mean = math.fsum(values) / len(values)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
    return deviation if scale and deviation >= _SAME else 1.0  # a deviation below _SAME is rounding, not signal
