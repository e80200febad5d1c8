"""`Rubric`: named components with weights that always rank wins above losses; rewards by turn; presets.

Presets keep order, which adjusts `win` and `rule_break`; `Rubric(…, keep_order=False)` uses the weights as they are.
Other projects score single replies. Here scores are averaged over the policy's turns, so a game with one own turn gets
exactly their number. There are two deliberate deviations: a turn that broke a rule gets the worst score of every
component (some projects gave 0, which was exploited), and a loss earns nothing of `win`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType

from wordle_rl.env import StopReason, Transcript, WordleEnv
from wordle_rl.game import Outcome
from wordle_rl.reward.components import COMPONENTS, Component, Range, RewardError, Shares, find_component
from wordle_rl.solver import Solver

ORDER_MARGIN = 0.01
"""Margin of the worst win over the best loss, and of an honest loss over one that gained by breaking a rule."""


@dataclass(frozen=True)
class RewardBreakdown:
    """The reward of a game: unweighted shares by component, one per own turn, and their weighted sums."""

    components: Mapping[str, Shares]
    weights: Mapping[str, float]
    turn_rewards: Shares
    total: float

    @property
    def values(self) -> dict[str, float]:
        """The unweighted value of each component: the sum of its shares."""
        return {name: math.fsum(shares) for name, shares in self.components.items()}

    def plus(self, name: str, shares: Shares, weight: float) -> RewardBreakdown:
        """Return the reward with another component, whose shares, one per own turn, the caller computed."""
        turn_rewards = tuple(reward + weight * share for reward, share in zip(self.turn_rewards, shares, strict=True))
        components, weights = {**self.components, name: shares}, {**self.weights, name: weight}
        return RewardBreakdown(components, weights, turn_rewards, math.fsum(turn_rewards))


@dataclass(frozen=True)
class Rubric:
    """Weights over named components, your own by import path among them (`find_component`).

    There are three kinds of games: a win, an honest loss (all turns played, no rule broken), and a loss in which a rule
    was broken. Whatever the weights, a win scores above every loss, and a rule-breaking loss never above an honest one.
    For this, the weight of `win` is raised and that of `rule_break` lowered as little as the stated ranges of the other
    components require. If breaking rules gains nothing, as with a reward for wins alone, all losses can score the same.
    A component with weight 0 is computed and logged, but does not count. `keep_order=False` uses the weights exactly as
    given, to reproduce a published set.
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

    @cached_property
    def asks_solver(self) -> bool:
        """True if a component asks the solver, which takes milliseconds."""
        return any(component.asks_solver for component in self.components.values())

    def score(self, transcript: Transcript, solver: Solver) -> RewardBreakdown:
        """Reward a finished game; one that ran out of tokens is a loss. The solver computes only what components ask.

        Raises:
            RewardError: If a request failed during the game or the policy played no turn, since such a game says
                nothing about the policy. Also if your own component returns wrong values.
        """
        if transcript.stop_reason is StopReason.REQUEST_FAILED:
            raise RewardError("a game with a failed request has no reward; leave it out of the batch")
        if not transcript.turns or transcript.turns[-1].is_prefix:
            raise RewardError("a game without a turn of the policy has no reward; leave it out of the batch")
        weights = self.effective_weights
        components = {name: component.compute(transcript, solver) for name, component in self.components.items()}
        turn_rewards = [0.0] * len(transcript.own_turns)
        for name, shares in components.items():
            for place, share in enumerate(shares):
                turn_rewards[place] += weights[name] * share
        return RewardBreakdown(components, weights, tuple(turn_rewards), math.fsum(turn_rewards))


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


def format_compliance(transcripts: Iterable[Transcript]) -> float:
    """Return the fraction of own turns whose reply is a readable, listed word of the right length; 0 without turns.

    Ignoring a hint in hard mode is bad play, not bad form, so it complies.
    """
    outcomes = [played.turn.outcome for transcript in transcripts for played in transcript.own_turns]
    complying = sum(outcome in (Outcome.SCORED, Outcome.HARD_MODE) for outcome in outcomes)
    return complying / len(outcomes) if outcomes else 0.0


TERMINAL_COMPONENTS = frozenset({"win", "speed", "win_per_guess"})
"""Components that pay nothing before the end."""


class TurnRewards:
    """Rewards of a game, turn by turn.

    After each turn, the game has the value that the rubric would give it if it ended there unsolved. A turn earns the
    change. So final shares (costs, the latest guess, the first broken rule) are paid at once, means are paid as they
    stand and corrected later, and the last turn pays what only the end reveals. The sum is always the rubric's reward
    of the finished game.
    """

    def __init__(self, rubric: Rubric, solver: Solver, secret: str, env: WordleEnv) -> None:
        self._rubric, self._solver, self._secret, self._env = rubric, solver, secret, env
        self._pays_at_end = {name for name, weight in rubric.effective_weights.items() if weight} <= TERMINAL_COMPONENTS
        self._num_judged = len(env.played)
        self._worth = 0.0
        self._breakdown: tuple[int, StopReason, RewardBreakdown] | None = None

    def next(self) -> float:
        """Return the reward of the turn just played."""
        num_played = len(self._env.turns)
        if num_played != self._num_judged + 1:
            raise ValueError(f"{num_played} turns were played but {self._num_judged} judged; judge after every turn")
        self._num_judged = num_played
        if self._pays_at_end and self._env.stop_reason is None:
            return 0.0
        return self._change()

    def rest(self) -> float:
        """Return the rest of the reward, perhaps negative, of a game that was truncated after its last judged turn."""
        if self._env.stop_reason is None:
            raise ValueError("the game is still running; the rest is paid when it is over")
        return self._change()

    def breakdown(self) -> RewardBreakdown:
        """Return the reward and its components as if the game ended here."""
        played, stopped = self._env.played, self._env.stop_reason or StopReason.OUT_OF_TURNS
        if self._breakdown is None or self._breakdown[:2] != (len(played), stopped):
            transcript = Transcript(self._secret, self._env.prompter.rules, played, stopped)
            self._breakdown = len(played), stopped, self._rubric.score(transcript, self._solver)
        return self._breakdown[2]

    def _change(self) -> float:
        before, self._worth = self._worth, self.breakdown().total
        return self._worth - before


@dataclass(frozen=True)
class Schedule:
    """Weights that change during training, by its steps or by format compliance.

    A schedule has no state, so a resumed run continues like an uninterrupted one.

    Attributes:
        phases: Where each table of weights begins, rising from 0, and the table.
        by_compliance: A phase begins at this format compliance, else at this fraction of the steps.
        glide: Move on a straight line from each table to the next, instead of all at once.
    """

    phases: Sequence[tuple[float, Mapping[str, float]]]
    by_compliance: bool = False
    glide: bool = False
    keep_order: bool = True

    def __post_init__(self) -> None:
        begins = [at for at, _ in self.phases]
        if begins[:1] != [0] or any(after <= before for before, after in pairwise(begins)):
            raise RewardError(f"phases must begin at 0 and rise, not at {', '.join(f'{at:g}' for at in begins)}")
        for _, weights in self.phases:
            Rubric(weights, self.keep_order)  # raises for a wrong set

    def rubric(self, progress: float = 0.0, format_compliance: float | None = None) -> Rubric:
        """Return the rubric of a moment.

        Args:
            progress: 0 at the first step of the stage, 1 at the last.
            format_compliance: To never switch back, the best one so far. None: not measured yet.

        Examples:
            >>> gliding = Schedule([(0, {"format": 1.0}), (0.5, {"win": 2.0})], glide=True, keep_order=False)
            >>> gliding.rubric(0.25).weights, gliding.rubric(0.8).weights
            ({'format': 0.5, 'win': 1.0}, {'win': 2.0})
        """
        at = (format_compliance or 0.0) if self.by_compliance else progress
        place = max(place for place, (begin, _) in enumerate(self.phases) if begin <= at)
        (begin, weights), following = self.phases[place], self.phases[place + 1 : place + 2]
        for end, later in following if self.glide else ():
            part = (at - begin) / (end - begin)
            names = {**weights, **later}
            weights = {n: (1 - part) * weights.get(n, 0.0) + part * later.get(n, 0.0) for n in names}
        return Rubric(weights, self.keep_order)


PRESETS: Mapping[str, Rubric] = MappingProxyType(
    {
        # Only the result counts, and an early win more.
        "sparse": Rubric({"win": 1.0, "speed": 0.5}),
        # A pipeline of fine-tuning on strict XML traces and GRPO in a multi-turn game names these five terms without
        # weights; the weights are ours.
        "strict_xml": Rubric({"win": 1.0, "speed": 0.5, "format": 0.2, "consistency": 0.2, "length": 0.1}),
        # The trainer notebook on a TextArena game: four rewards of the last guess with equal weights.
        "notebook": Rubric({"win": 1.0, "greens": 1.0, "yellows": 1.0, "variety": 1.0}),
        # The Wordle environment of verifiers, on which prime-rl trains: 1 for a win, another 1 / guesses, otherwise 0.2
        # a green and 0.1 a yellow letter of the last guess, and 0.2 for the form. A win's last guess is five greens.
        "verifiers": Rubric({"greens": 1.0, "yellows": 0.5, "win_per_guess": 1.0, "format": 0.2}),
        # Shaping of single guesses: form, use of clues, value of the guess, and -1.0 per repeated guess of a six-turn
        # game. That penalty was proposed after a policy had repeated one word.
        "shaped": Rubric({"format": 1.0, "feedback": 0.5, "information": 0.3, "repeat": -6.0}),
        # The second phase of the same proposal, once nine of ten replies are well formed.
        "shaped_strategy": Rubric({"format": 0.3, "feedback": 1.0, "information": 1.0, "repeat": -6.0}),
        # The distance of each guess from the solver's best play.
        "solver": Rubric({"win": 1.0, "speed": 0.2, "regret": -1.0}),
    }
)
"""Rubrics by name."""

CURRICULA: Mapping[str, Schedule] = MappingProxyType(
    {
        "shaped_curriculum": Schedule(
            [(0, PRESETS["shaped"].weights), (0.9, PRESETS["shaped_strategy"].weights)], by_compliance=True
        )
    }
)
"""Schedules by name, in addition to the presets."""


def named_schedule(name: str) -> Schedule:
    """Return the schedule of a preset (constant) or curriculum."""
    if name in CURRICULA:
        return CURRICULA[name]
    if name not in PRESETS:
        raise RewardError(f"unknown reward preset {name!r}; known are {', '.join([*PRESETS, *CURRICULA])}")
    return Schedule([(0, PRESETS[name].weights)])
