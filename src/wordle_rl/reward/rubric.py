"""`Rubric`: named components with weights that always rank wins above losses."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from wordle_rl.env import StopReason, Transcript
from wordle_rl.game import Outcome
from wordle_rl.reward.components import COMPONENTS, Component, Range, RewardError, Shares, find_component
from wordle_rl.solver import Solver

ORDER_MARGIN = 0.01
"""Margin of the worst win over the best loss, and of an honest loss over one that gained by breaking a rule."""


@dataclass(frozen=True)
class RewardBreakdown:
    """The reward of a game and its components.

    Attributes:
        components: Unweighted shares by component, one number per own turn.
        weights: The weights used, by component.
        turn_rewards: Weighted sum of the shares of each own turn.
        total: Sum of `turn_rewards`.
    """

    components: Mapping[str, Shares]
    weights: Mapping[str, float]
    turn_rewards: Shares
    total: float

    @property
    def values(self) -> dict[str, float]:
        """The unweighted value of each component: the sum of its shares."""
        return {name: math.fsum(shares) for name, shares in self.components.items()}


@dataclass(frozen=True)
class Rubric:
    """Weights over named components.

    There are three kinds of games: a win, an honest loss (all turns played, no rule broken), and a loss in which a rule
    was broken. Whatever the weights, a win scores above every loss, and a rule-breaking loss never above an honest one.
    For this, the weight of `win` is raised and that of `rule_break` lowered as little as the stated ranges of the other
    components require. If breaking rules gains nothing, as with a reward for wins alone, all losses can score the same.
    A component with weight 0 is computed and logged, but does not count.

    Attributes:
        weights: Weight by component name, or by the import path of your own (`find_component`). Costs need negative
            weights.
        keep_order: False uses the weights exactly as given, to reproduce a published set.

    Raises:
        RewardError: If there are no weights, a component is unknown, or a weight is not a finite number.
    """

    weights: Mapping[str, float]
    keep_order: bool = True

    def __post_init__(self) -> None:
        if not self.weights:
            raise RewardError(f"a rubric needs at least one component; known are {', '.join(COMPONENTS)}")
        for name, weight in self.weights.items():
            find_component(name)
            if not math.isfinite(weight):
                raise RewardError(f"the weight of component {name!r} must be a finite number, not {weight}")
        object.__setattr__(self, "weights", {name: float(weight) for name, weight in self.weights.items()})

    @cached_property
    def effective_weights(self) -> Mapping[str, float]:
        """The weights used: as given, or with `win` and `rule_break` adjusted to keep order.

        Examples:
            >>> Rubric({"format": 1.0}).effective_weights
            {'format': 1.0, 'win': 1.01, 'rule_break': 0.0}
            >>> Rubric({"format": 1.0}, keep_order=False).effective_weights
            {'format': 1.0}
        """
        return _ordered(self.weights) if self.keep_order else dict(self.weights)

    @cached_property
    def components(self) -> Mapping[str, Component]:
        """The components to compute, by name."""
        return {name: find_component(name) for name in self.effective_weights}

    def score(self, transcript: Transcript, solver: Solver) -> RewardBreakdown:
        """Reward a finished game.

        Args:
            transcript: The game; if it ran out of tokens, it is a loss.
            solver: Solver of the game's word list. It computes nothing until a component asks it.

        Raises:
            RewardError: If a request failed during the game or the policy played no turn, since such a game says
                nothing about the policy. Also if a component needs a solver of another word length, or your own returns
                wrong values.
        """
        if transcript.stop_reason is StopReason.REQUEST_FAILED:
            raise RewardError("a game with a failed request has no reward; leave it out of the batch")
        if not transcript.turns or transcript.turns[-1].is_prefix:
            raise RewardError("a game without a turn of the policy has no reward; leave it out of the batch")
        weights = self.effective_weights
        components = {name: component.compute(transcript, solver) for name, component in self.components.items()}
        turn_rewards = [0.0] * len(next(iter(components.values())))
        for name, shares in components.items():
            weight = weights[name]
            for place, share in enumerate(shares):
                turn_rewards[place] += weight * share
        return RewardBreakdown(components, weights, tuple(turn_rewards), math.fsum(turn_rewards))


def format_compliance(transcripts: Iterable[Transcript]) -> float:
    """Return the fraction of own turns whose reply is a readable, listed word of the right length, 0 to 1.

    Ignoring a hint in hard mode is bad play, not bad form, so it complies. Without own turns it is 0.
    """
    outcomes = [played.turn.outcome for transcript in transcripts for played in transcript.own_turns]
    complying = sum(outcome in (Outcome.SCORED, Outcome.HARD_MODE) for outcome in outcomes)
    return complying / len(outcomes) if outcomes else 0.0


def _ordered(given: Mapping[str, float]) -> dict[str, float]:
    shaping = {name: weight for name, weight in given.items() if name not in ("win", "rule_break")}
    components = {name: find_component(name) for name in shaping}
    loss_high = _bounds(shaping, {name: component.loss_range for name, component in components.items()})[1]
    honest_low = _bounds(shaping, {name: component.honest_range for name, component in components.items()})[0]
    win_low = _bounds(shaping, {name: component.win_range for name, component in components.items()})[0]
    gain = loss_high - honest_low
    # If breaking rules gains nothing, a purely terminal reward stays as it is.
    rule_break = min(given.get("rule_break", 0.0), -(gain + ORDER_MARGIN) if gain > 0 else 0.0)
    # Even a win in which a rule was broken must score above the best loss.
    win = max(given.get("win", 0.0), loss_high - win_low - rule_break + ORDER_MARGIN)
    return {**given, "win": win, "rule_break": rule_break}


def _bounds(weights: Mapping[str, float], ranges: Mapping[str, Range]) -> Range:
    # Lowest and highest weighted sum if each component can take any value in its range.
    ends = [sorted((weight * ranges[name][0], weight * ranges[name][1])) for name, weight in weights.items()]
    return math.fsum(low for low, _ in ends), math.fsum(high for _, high in ends)
