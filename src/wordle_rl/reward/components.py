"""Reward components: pure functions of a finished game that give every own turn a share.

The value of a component is the sum of its shares and lies in its stated range. There are four kinds:

- terminal (`win`, `speed`): paid on the winning turn;
- mean (`format`, `valid_word`, `length`, `consistency`, `feedback`, `information`): each turn's score divided by the
  number of own turns, so a long game earns no more than a short one;
- cost (`regret`, `quick_regret`, `repeat`, `overlong`): each turn's cost divided by the maximum number of turns, so
  every further turn can only add. Costs are positive; rubrics give them negative weights;
- latest (`greens`, `yellows`, `variety`): only the last guess counts; the share of a turn is the change it made.

A turn that broke the rules gets the worst score of every component. The exceptions `format` and `length` grade how it
broke them, and give almost nothing to a reply without a readable guess. Turns that were not played because the token
budget ran out count as worst turns and are charged to the last own turn, so stopping early never pays. Prefix guesses
are clues and earn nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from wordle_rl.env import PlayedTurn, StopReason, Transcript
from wordle_rl.errors import UserError
from wordle_rl.game import Outcome, Turn
from wordle_rl.import_paths import numbers_of, resolve
from wordle_rl.prompt import ParseFailure
from wordle_rl.reward.clues import LOWEST_FEEDBACK, feedback_use, information_share, is_consistent, with_candidates
from wordle_rl.solver import Solver, turn_regret

Range = tuple[float, float]
"""Lowest and highest value, inclusive."""

Shares = tuple[float, ...]
"""One number per own turn, in the order played."""

STRAY_TAGS_SCORE = 0.1
"""`format` of a reply with a tag or the right frame, but without a word of the right length."""

FREE_TOKENS = 256
"""Length up to which a reply costs no `overlong`."""

FULL_COST_TOKENS = 1024
"""Length from which a reply costs a full `overlong`; in between the cost is linear."""

LOWEST_VARIETY = -4.0
"""One word guessed six times: five earlier uses, one distinct word. Longer games are clipped here."""


class RewardError(UserError):
    """A rubric that cannot be built, or a game that has no reward."""


@dataclass(frozen=True, slots=True)
class Component:
    """A named part of a reward, and the ranges of its value.

    Attributes:
        name: Name in rubrics and logs.
        compute: Maps transcript and solver to one share per own turn.
        loss_range: Range for any lost game, truncated ones included.
        honest_range: Range for an honest loss (all turns played, no rule broken); within `loss_range`.
        win_range: Range for a won game.
        summary: One line for people.
        asks_solver: True if `compute` uses the solver, which takes milliseconds instead of microseconds.
    """

    name: str
    compute: Callable[[Transcript, Solver], Shares]
    loss_range: Range
    honest_range: Range
    win_range: Range
    summary: str
    asks_solver: bool = False

    def __call__(self, transcript: Transcript, solver: Solver) -> Shares:
        """Return the shares of a game, so that an import path can name a `Component` with its own ranges."""
        return self.compute(transcript, solver)


def _win(transcript: Transcript, _solver: Solver) -> Shares:
    return _on_last_turn(transcript, 1.0 if transcript.won else 0.0)


def _speed(transcript: Transcript, _solver: Solver) -> Shares:
    if not transcript.won:
        return _on_last_turn(transcript, 0.0)
    max_turns = transcript.rules.max_turns
    return _on_last_turn(transcript, (max_turns - transcript.turns_used) / max(1, max_turns - 1))


def _rule_break(transcript: Transcript, _solver: Solver) -> Shares:
    broken = [played.turn.outcome is not Outcome.SCORED for played in transcript.turns if not played.is_prefix]
    first = broken.index(True) if True in broken else -1
    return tuple(1.0 if place == first else 0.0 for place in range(len(broken)))


def _format(transcript: Transcript, _solver: Solver) -> Shares:
    return _mean(transcript, [_format_score(played) for played in transcript.turns if not played.is_prefix], 0.0)


def _format_score(played: PlayedTurn) -> float:
    outcome = played.turn.outcome
    if outcome is Outcome.SCORED or outcome is Outcome.HARD_MODE:
        return 1.0
    if outcome is Outcome.UNLISTED:
        return 0.5
    # A readable guess of the wrong length at least had the right frame.
    framed = not isinstance(played.parsed, ParseFailure) or played.parsed.has_tags
    return STRAY_TAGS_SCORE if framed else 0.0


def _valid_word(transcript: Transcript, _solver: Solver) -> Shares:
    return _mean(transcript, [float(not played.turn.outcome.broke_rules) for played in transcript.own_turns], 0.0)


def _length(transcript: Transcript, _solver: Solver) -> Shares:
    letters = len(transcript.secret)
    return _mean(transcript, [float(len(played.turn.guess or "") == letters) for played in transcript.own_turns], 0.0)


def _consistency(transcript: Transcript, _solver: Solver) -> Shares:
    scores = [float(_kept_rules(turn) and is_consistent(turn, earlier)) for turn, earlier in _with_past(transcript)]
    return _mean(transcript, scores, 0.0)


def _feedback(transcript: Transcript, _solver: Solver) -> Shares:
    scores = [
        feedback_use(turn, earlier) if _kept_rules(turn) else LOWEST_FEEDBACK
        for turn, earlier in _with_past(transcript)
    ]
    return _mean(transcript, scores, LOWEST_FEEDBACK)


def _information(transcript: Transcript, solver: Solver) -> Shares:
    _check_length(solver, transcript, "information")
    scores = [
        information_share(turn, transcript.secret, candidates, solver)
        for turn, candidates in with_candidates(transcript, solver)
    ]
    return _mean(transcript, scores, 0.0)


def _regret(transcript: Transcript, solver: Solver) -> Shares:
    _check_length(solver, transcript, "regret")
    return _regret_costs(transcript, solver, solver.regret)


def _quick_regret(transcript: Transcript, solver: Solver) -> Shares:
    _check_length(solver, transcript, "quick_regret")
    return _regret_costs(transcript, solver, solver.quick_regret)


def _regret_costs(transcript: Transcript, solver: Solver, regret: Callable[[str, Any], float]) -> Shares:
    costs = [turn_regret(turn, candidates, regret) for turn, candidates in with_candidates(transcript, solver)]
    return _cost(transcript, costs)


def _repeat(transcript: Transcript, _solver: Solver) -> Shares:
    seen: set[str | None] = set()
    costs = []
    for played in transcript.turns:
        turn = played.turn
        if not played.is_prefix:
            costs.append(1.0 if turn.outcome is not Outcome.SCORED or turn.guess in seen else 0.0)
        seen.add(turn.guess)
    return _cost(transcript, costs)


def _overlong(transcript: Transcript, _solver: Solver) -> Shares:
    return _cost(transcript, [_overlong_cost(played) for played in transcript.own_turns])


def _overlong_cost(played: PlayedTurn) -> float:
    # A reply that was cut or broke a rule costs the full 1, whatever its length.
    if played.overlong or played.turn.outcome.broke_rules:
        return 1.0
    length = len(played.reply.split()) if played.num_tokens is None else played.num_tokens
    return min(1.0, max(0.0, (length - FREE_TOKENS) / (FULL_COST_TOKENS - FREE_TOKENS)))


def _greens(transcript: Transcript, _solver: Solver) -> Shares:
    return _latest(transcript, [_mark_share(played.turn, "G") for played in transcript.own_turns], 0.0)


def _yellows(transcript: Transcript, _solver: Solver) -> Shares:
    return _latest(transcript, [_mark_share(played.turn, "Y") for played in transcript.own_turns], 0.0)


def _variety(transcript: Transcript, _solver: Solver) -> Shares:
    values = []
    for turn, earlier in _with_past(transcript):
        if not _kept_rules(turn):
            values.append(LOWEST_VARIETY)
            continue
        past = [before.guess for before in earlier if before.guess is not None]
        values.append(max(LOWEST_VARIETY, 1.0 - past.count(turn.guess or "") / len({*past, turn.guess})))
    return _latest(transcript, values, LOWEST_VARIETY)


def _kept_rules(turn: Turn) -> bool:
    return turn.outcome is Outcome.SCORED


def _mark_share(turn: Turn, mark: str) -> float:
    return turn.marks.count(mark) / len(turn.marks) if turn.marks else 0.0


def _with_past(transcript: Transcript) -> Iterator[tuple[Turn, Sequence[Turn]]]:
    board = [played.turn for played in transcript.turns]
    for place, played in enumerate(transcript.turns):
        if not played.is_prefix:
            yield played.turn, board[:place]


def _unplayed(transcript: Transcript) -> int:
    if transcript.stop_reason is not StopReason.TOKEN_BUDGET:
        return 0
    return max(0, transcript.rules.max_turns - transcript.turns_used)


def _on_last_turn(transcript: Transcript, value: float) -> Shares:
    own = sum(not played.is_prefix for played in transcript.turns)
    return (*(0.0,) * (own - 1), value)


def _mean(transcript: Transcript, scores: list[float], worst: float) -> Shares:
    unplayed = _unplayed(transcript)
    count = len(scores) + unplayed
    shares = [score / count for score in scores]
    shares[-1] += worst * unplayed / count
    return tuple(shares)


def _cost(transcript: Transcript, costs: list[float]) -> Shares:
    unplayed = _unplayed(transcript)
    count = max(transcript.rules.max_turns, len(costs) + unplayed)  # with free refusals a game has more turns
    shares = [cost / count for cost in costs]
    shares[-1] += unplayed / count
    return tuple(shares)


def _latest(transcript: Transcript, values: list[float], worst: float) -> Shares:
    # Shares are changes, so they add up to the last value.
    if _unplayed(transcript):
        values[-1] = worst
    return (values[0], *(after - before for before, after in pairwise(values)))


def _check_length(solver: Solver, transcript: Transcript, name: str) -> None:
    if solver.words.word_length != len(transcript.secret):
        raise RewardError(
            f"component {name!r}: the game has {len(transcript.secret)} letters, but the solver's list has "
            f"{solver.words.word_length}; create the solver from the game's word list"
        )


_UNIT: Range = (0.0, 1.0)
_ZERO: Range = (0.0, 0.0)
_ONE: Range = (1.0, 1.0)
_FEEDBACK: Range = (LOWEST_FEEDBACK, 1.0)
_VARIETY: Range = (LOWEST_VARIETY, 1.0)

COMPONENTS: Mapping[str, Component] = MappingProxyType(
    {
        component.name: component
        for component in (
            Component("win", _win, _ZERO, _ZERO, _ONE, "1 on the turn that found the secret"),
            Component("speed", _speed, _ZERO, _ZERO, _UNIT, "of a win: 1 on the first turn, 0 on the last"),
            Component("greens", _greens, _UNIT, _UNIT, _ONE, "fraction of green letters in the last guess"),
            Component("yellows", _yellows, _UNIT, _UNIT, _ZERO, "fraction of yellow letters in the last guess"),
            Component(
                "variety",
                _variety,
                _VARIETY,
                _VARIETY,
                _ONE,
                "of the last guess: 1 - its earlier uses / distinct guesses so far",
            ),
            Component(
                "format",
                _format,
                _UNIT,
                _ONE,
                _UNIT,
                "1 listed word, 0.5 unlisted word of the right length, 0.1 stray tags, else 0",
            ),
            Component("valid_word", _valid_word, _UNIT, _ONE, _UNIT, "fraction of turns the rules accepted"),
            Component("length", _length, _UNIT, _ONE, _UNIT, "fraction of turns with a guess of the right length"),
            Component(
                "consistency", _consistency, _UNIT, _UNIT, _UNIT, "fraction of guesses that fit every clue so far"
            ),
            Component("feedback", _feedback, _FEEDBACK, _FEEDBACK, _FEEDBACK, "clues used, letter by letter"),
            Component(
                "information",
                _information,
                _UNIT,
                _UNIT,
                _UNIT,
                "expected bits of a guess over the best available; the winning guess 1",
                asks_solver=True,
            ),
            Component(
                "regret",
                _regret,
                _UNIT,
                _UNIT,
                _UNIT,
                "cost: expected guesses given away to the solver, at most 1 a turn",
                asks_solver=True,
            ),
            Component(
                "quick_regret",
                _quick_regret,
                _UNIT,
                _UNIT,
                _UNIT,
                "the same from looking one guess ahead, which costs little",
                asks_solver=True,
            ),
            Component("repeat", _repeat, _UNIT, _UNIT, _UNIT, "cost: guesses already on the board"),
            Component("overlong", _overlong, _UNIT, _UNIT, _UNIT, "cost: replies that think too long or are cut off"),
            Component("rule_break", _rule_break, _UNIT, _ZERO, _UNIT, "1 on the first turn that broke a rule"),
        )
    }
)
"""All components by name. To keep order, a rubric adjusts the weights of `win` and `rule_break`."""

_ROUNDING = 1e-9


def find_component(name: str) -> Component:
    """Return a component by name, or your own by import path, `module:attribute`.

    Your own is a pure function of the finished transcript and the solver. It returns one number per own turn, and their
    sum must lie in 0 to 1 for every game. To state other ranges, name a `Component`. Every result is checked, since
    `Rubric` relies on the ranges to keep losses below wins.

    Raises:
        RewardError: If there is none, or it does not take a transcript and a solver.
    """
    if name in COMPONENTS:
        return COMPONENTS[name]
    if ":" not in name:
        known = ", ".join(COMPONENTS)
        raise RewardError(f"unknown reward component {name!r}; known are {known}, and your own as module:attribute")
    own = resolve(name, "reward component", RewardError, takes="transcript, solver")
    if not isinstance(own, Component):
        # It can ask the solver, so callers must prepare one.
        own = Component(name, own, _UNIT, _UNIT, _UNIT, "of your own", asks_solver=True)
    return replace(own, name=name, compute=partial(_checked_shares, name, own))


def _checked_shares(name: str, component: Component, transcript: Transcript, solver: Solver) -> Shares:
    shares, own_turns = numbers_of(component.compute(transcript, solver)), transcript.own_turns
    if shares is None or len(shares) != len(own_turns):
        raise RewardError(
            f"reward component {name!r} must return one finite number per own turn, {len(own_turns)} for this game"
        )
    kept_rules = not any(played.turn.outcome.broke_rules for played in own_turns)
    # A running game is scored as if it ended now: a loss, but not an honest one.
    played_all = transcript.turns_used >= transcript.rules.max_turns
    lost = component.honest_range if kept_rules and played_all else component.loss_range
    low, high = component.win_range if transcript.won else lost
    value = math.fsum(shares)
    if not low - _ROUNDING <= value <= high + _ROUNDING:
        raise RewardError(
            f"reward component {name!r} returned {value:g}, outside its range {low:g} to {high:g}; scale it, or name "
            "a Component that states its ranges"
        )
    return shares
