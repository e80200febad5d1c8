"""`Rubric`: named components with weights, and the order of games that holds for all weights."""

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
"""Margin of the worst win over the best loss.

Also the margin of an honest loss over one that broke a rule, where breaking rules would pay otherwise.
"""


@dataclass(frozen=True)
class RewardBreakdown:
    """The reward of one game and where it came from.

    Attributes:
        components: Unweighted shares by component name, one number per own turn.
        weights: The weights used, by component name.
        turn_rewards: Weighted sum of the shares of each own turn, in the order played.
        total: Sum of `turn_rewards`.
    """

    components: Mapping[str, Shares]
    weights: Mapping[str, float]
    turn_rewards: Shares
    total: float

    @property
    def values(self) -> dict[str, float]:
        """Each component's unweighted value: the sum of its shares."""
        return {name: math.fsum(shares) for name, shares in self.components.items()}


@dataclass(frozen=True)
class Rubric:
    """Weights over named components.

    There are three kinds of games: a win; an honest loss (every turn played, no rule broken); a loss in which
    a rule was broken. Whatever the weights, a win scores above every loss, and a rule-breaking loss never above an
    honest one: the weight of `win` is raised and that of `rule_break` lowered to the least values that ensure this
    for the stated ranges of the other components. Where breaking rules can gain nothing, as under a reward for wins
    alone, all losses may score the same. A component with weight 0 is computed and kept, but counts nothing.

    Attributes:
        weights: Weight by component name, or by the import path of one of yours (`find_component`); costs take
            negative weights.
        keep_order: False uses the weights exactly as given. Only for reproducing a published set.

    Raises:
        RewardError: If there are no weights, a component cannot be had or a weight is not a finite number.
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
        """The weights used: as given, or with `win` and `rule_break` moved to keep order.

        Examples:
            >>> Rubric({"format": 1.0}).effective_weights
            {'format': 1.0, 'win': 1.01, 'rule_break': 0.0}
            >>> Rubric({"format": 1.0}, keep_order=False).effective_weights
            {'format': 1.0}
        """
        return _ordered(self.weights) if self.keep_order else dict(self.weights)

    @cached_property
    def components(self) -> Mapping[str, Component]:
        """The components that are computed, by name."""
        return {name: find_component(name) for name in self.effective_weights}

    def score(self, transcript: Transcript, solver: Solver) -> RewardBreakdown:
        """Reward a finished game.

        Args:
            transcript: The game. One that ran out of tokens is a loss.
            solver: Of the word list of the game. It computes nothing until a component asks it.

        Raises:
            RewardError: If a request failed during the game or the policy played no turn of it, since such a game
                is no evidence about the policy; if a component asks a solver of another word length; or if one of
                yours returns other than it states.
        """
        if transcript.stop_reason is StopReason.REQUEST_FAILED:
            raise RewardError("a game whose request failed has no reward; leave it out of the batch")
        if not transcript.turns or transcript.turns[-1].is_prefix:
            raise RewardError("a game without a turn of the policy's own has no reward; leave it out of the batch")
        weights = self.effective_weights
        components = {name: component.compute(transcript, solver) for name, component in self.components.items()}
        turn_rewards = [0.0] * len(next(iter(components.values())))
        for name, shares in components.items():
            weight = weights[name]
            for place, share in enumerate(shares):
                turn_rewards[place] += weight * share
        return RewardBreakdown(components, weights, tuple(turn_rewards), math.fsum(turn_rewards))


def format_compliance(transcripts: Iterable[Transcript]) -> float:
    """Fraction of own turns whose reply held a readable, listed word of the right length, 0 to 1.

    A hint ignored in hard mode is bad play, not bad form, and complies. Without any own turn: 0.
    """
    outcomes = [played.turn.outcome for transcript in transcripts for played in transcript.own_turns]
    complying = sum(outcome in (Outcome.SCORED, Outcome.HARD_MODE) for outcome in outcomes)
    return complying / len(outcomes) if outcomes else 0.0


def _ordered(given: Mapping[str, float]) -> dict[str, float]:
    """Raise `win` and lower `rule_break` to the least weights that keep order."""
    shaping = {name: weight for name, weight in given.items() if name not in ("win", "rule_break")}
    components = {name: find_component(name) for name in shaping}
    loss_high = _bounds(shaping, {name: component.loss_range for name, component in components.items()})[1]
    honest_low = _bounds(shaping, {name: component.honest_range for name, component in components.items()})[0]
    win_low = _bounds(shaping, {name: component.win_range for name, component in components.items()})[0]
    gain = loss_high - honest_low
    # Nothing to gain by breaking rules leaves a purely terminal reward as it is.
    rule_break = min(given.get("rule_break", 0.0), -(gain + ORDER_MARGIN) if gain > 0 else 0.0)
    # A win in which a rule was broken must still stand above the best loss.
    win = max(given.get("win", 0.0), loss_high - win_low - rule_break + ORDER_MARGIN)
    return {**given, "win": win, "rule_break": rule_break}


def _bounds(weights: Mapping[str, float], ranges: Mapping[str, Range]) -> Range:
    """The lowest and highest weighted sum of components that may take any value of their ranges."""
    ends = [sorted((weight * ranges[name][0], weight * ranges[name][1])) for name, weight in weights.items()]
    return math.fsum(low for low, _ in ends), math.fsum(high for _, high in ends)
