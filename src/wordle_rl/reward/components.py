"""Reward components: pure functions of a finished game that give every own turn a share.

The value of a component is the sum of its shares and lies in its stated range. There are four kinds:

- terminal (`win`, `speed`, `win_per_guess`): paid on the winning turn;
- mean (`format`, `valid_word`, `length`, `consistency`, `feedback`, `information`): each turn's score divided by the
  number of own turns, so a long game earns no more than a short one;
- cost (`regret`, `quick_regret`, `repeat`, `overlong`): each turn's cost divided by the maximum number of turns, so
  every further turn can only add, up to 1: free refusals can make a game longer. Costs are positive; rubrics give them
  negative weights;
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

import numpy as np
from numpy.typing import NDArray

from wordle_rl.env import PlayedTurn, StopReason, Transcript
from wordle_rl.errors import UserError
from wordle_rl.game import Outcome, Turn, violates_clues
from wordle_rl.import_paths import numbers_of, resolve
from wordle_rl.prompt import Knowledge, ParseFailure, knowledge_of
from wordle_rl.solver import Solver, turn_regret

Range = tuple[float, float]
"""Lowest and highest value, inclusive."""

Shares = tuple[float, ...]
"""One number per own turn, in the order played."""

PLACE_KEPT = 0.2
"""A letter in its known place."""
LETTER_MOVED = 0.1
"""A letter known to be in the word, in a place where it can be."""
NEW_LETTER = 0.05
"""A letter, or a further copy, about which nothing is known."""
WRONG_PLACE = -0.2
"""A letter of the word in a place where it is known not to be."""
ABSENT_LETTER = -0.5
"""A letter, or a further copy, that the word is known not to contain."""

LOWEST_FEEDBACK = 5 * ABSENT_LETTER
"""The lowest `feedback` of a turn; the highest is `5 * PLACE_KEPT`, which is 1."""

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
    """A part of a reward, and the ranges of its value.

    Attributes:
        compute: Maps transcript and solver to one share per own turn.
        loss_range: Range for any lost game, truncated ones included.
        honest_range: Range for an honest loss (all turns played, no rule broken); within `loss_range`.
        win_range: Range for a won game.
        asks_solver: True if `compute` uses the solver, which takes milliseconds instead of microseconds.
    """

    compute: Callable[[Transcript, Solver], Shares]
    loss_range: Range
    honest_range: Range
    win_range: Range
    asks_solver: bool = False

    def __call__(self, transcript: Transcript, solver: Solver) -> Shares:
        """Return the shares of a game, so that an import path can name a `Component` with its own ranges."""
        return self.compute(transcript, solver)


def _win(transcript: Transcript, _solver: Solver) -> Shares:
    return _on_last_turn(transcript, 1.0 if transcript.won else 0.0)


def _speed(transcript: Transcript, _solver: Solver) -> Shares:
    max_turns = transcript.rules.max_turns
    spare = (max_turns - transcript.turns_used) / max(1, max_turns - 1)
    return _on_last_turn(transcript, spare if transcript.won else 0.0)


def _win_per_guess(transcript: Transcript, _solver: Solver) -> Shares:
    return _on_last_turn(transcript, 1.0 / transcript.turns_used if transcript.won else 0.0)


def _rule_break(transcript: Transcript, _solver: Solver) -> Shares:
    broken = [played.turn.outcome.broke_rules for played in transcript.own_turns]
    first = broken.index(True) if True in broken else -1
    return tuple(1.0 if place == first else 0.0 for place in range(len(broken)))


def _information(transcript: Transcript, solver: Solver) -> Shares:
    _check_length(solver, transcript)
    turns = with_candidates(transcript, solver)
    scores = [information_share(turn, transcript.secret, candidates, solver) for turn, candidates in turns]
    return _mean_shares(transcript, scores, 0.0)


def _regret(transcript: Transcript, solver: Solver, *, quick: bool = False) -> Shares:
    _check_length(solver, transcript)
    regret = solver.quick_regret if quick else solver.regret
    turns = with_candidates(transcript, solver)
    return _cost_shares(transcript, [turn_regret(turn, candidates, regret) for turn, candidates in turns])


# --- scores of one turn, given the board before it ------------------------------------------------------------

Score = Callable[[PlayedTurn, Sequence[Turn]], float]


def _format(played: PlayedTurn, _board: Sequence[Turn]) -> float:
    outcome = played.turn.outcome
    if outcome is Outcome.SCORED or outcome is Outcome.HARD_MODE:
        return 1.0
    if outcome is Outcome.UNLISTED:
        return 0.5
    # A readable guess of the wrong length at least had the right frame.
    framed = not isinstance(played.parsed, ParseFailure) or played.parsed.has_tags
    return STRAY_TAGS_SCORE if framed else 0.0


def _valid_word(played: PlayedTurn, _board: Sequence[Turn]) -> float:
    return float(not played.turn.outcome.broke_rules)


def _length(played: PlayedTurn, _board: Sequence[Turn]) -> float:
    # The rules refuse a readable guess of another length as such, and any other outcome has a guess or none.
    return float(played.turn.guess is not None and played.turn.outcome is not Outcome.WRONG_LENGTH)


def _consistency(played: PlayedTurn, board: Sequence[Turn]) -> float:
    guess = played.turn.guess
    return float(not played.turn.outcome.broke_rules and guess is not None and not violates_clues(guess, board))


def _feedback(played: PlayedTurn, board: Sequence[Turn]) -> float:
    guess = played.turn.guess
    if played.turn.outcome.broke_rules or not guess:
        return LOWEST_FEEDBACK
    # Five times the mean score of a letter: the sum for five letters, and the same range for every length.
    scores = letter_scores(guess, knowledge_of(board, len(guess)))
    return 5 * sum(scores) / len(scores)


def _repeat(played: PlayedTurn, board: Sequence[Turn]) -> float:
    return float(played.turn.outcome.broke_rules or played.turn.guess in {turn.guess for turn in board})


def _overlong(played: PlayedTurn, _board: Sequence[Turn]) -> float:
    # A reply that was cut or broke a rule costs the full 1, whatever its length.
    if played.overlong or played.turn.outcome.broke_rules:
        return 1.0
    length = len(played.reply.split()) if played.num_tokens is None else played.num_tokens
    return min(1.0, max(0.0, (length - FREE_TOKENS) / (FULL_COST_TOKENS - FREE_TOKENS)))


def _marks(mark: str, played: PlayedTurn, _board: Sequence[Turn]) -> float:
    marks = played.turn.marks
    return marks.count(mark) / len(marks) if marks else 0.0


def _variety(played: PlayedTurn, board: Sequence[Turn]) -> float:
    if played.turn.outcome.broke_rules:
        return LOWEST_VARIETY
    past, guess = [turn.guess for turn in board if turn.guess is not None], played.turn.guess
    return max(LOWEST_VARIETY, 1.0 - past.count(guess or "") / len({*past, guess}))


def letter_scores(guess: str, known: Knowledge) -> tuple[float, ...]:
    """Score every letter of a guess by what was known before.

    Each known copy of a letter counts once: copies in their known place first, then those still to be placed, from the
    left. A copy beyond them is new, or absent if the number of copies is known.

    Examples:
        >>> from wordle_rl.game import Outcome, Turn
        >>> known = knowledge_of([Turn("crane", "GYXXX", Outcome.SCORED)], 5)
        >>> letter_scores("corgi", known)
        (0.2, 0.05, 0.1, 0.05, 0.05)
        >>> letter_scores("crate", known)
        (0.2, -0.2, -0.5, 0.05, -0.5)
    """
    unplaced = {letter: count - known.placed.count(letter) for letter, count in known.at_least.items()}
    scores = []
    for place, letter in enumerate(guess):
        if known.placed[place] == letter:
            scores.append(PLACE_KEPT)
        elif letter in known.absent:
            scores.append(ABSENT_LETTER)
        elif letter not in unplaced:
            scores.append(NEW_LETTER)
        elif known.placed[place] is not None or place in known.misplaced.get(letter, ()):
            scores.append(WRONG_PLACE)
        elif unplaced[letter] > 0:
            unplaced[letter] -= 1
            scores.append(LETTER_MOVED)
        else:
            scores.append(ABSENT_LETTER if letter in known.exactly else NEW_LETTER)
    return tuple(scores)


def with_candidates(transcript: Transcript, solver: Solver) -> Iterator[tuple[Turn, NDArray[np.int32]]]:
    """Yield each own turn with the answers that were still possible before it."""
    candidates = solver.candidates(())
    for played in transcript.turns:
        turn = played.turn
        if not played.is_prefix:
            yield turn, candidates
        if turn.guess is not None and turn.marks is not None:
            candidates = solver.narrow(candidates, turn.guess, turn.marks)


def information_share(turn: Turn, secret: str, candidates: NDArray[np.int32], solver: Solver) -> float:
    """Return the expected bits of a guess divided by those of the best guess, 0 to 1.

    The winning guess counts 1, even if one candidate was left and no guess could give information. If no candidate is
    left (a secret outside the answers), any other guess counts 0.
    """
    if turn.guess == secret and turn.marks is not None:
        return 1.0
    if turn.guess is None or turn.marks is None or len(candidates) < 2:
        return 0.0
    return min(1.0, solver.information_of(turn.guess, candidates) / solver.best_information(candidates))


# --- from scores to shares ------------------------------------------------------------------------------------


def _scores(score: Score, transcript: Transcript) -> list[float]:
    board = [played.turn for played in transcript.turns]
    return [score(played, board[:at]) for at, played in enumerate(transcript.turns) if not played.is_prefix]


def _unplayed(transcript: Transcript) -> int:
    if transcript.stop_reason is not StopReason.TOKEN_BUDGET:
        return 0
    return max(0, transcript.rules.max_turns - transcript.turns_used)


def _on_last_turn(transcript: Transcript, value: float) -> Shares:
    return (*(0.0,) * (len(transcript.own_turns) - 1), value)


def _mean_shares(transcript: Transcript, scores: list[float], worst: float) -> Shares:
    unplayed = _unplayed(transcript)
    count = len(scores) + unplayed
    shares = [score / count for score in scores]
    shares[-1] += worst * unplayed / count
    return tuple(shares)


def _cost_shares(transcript: Transcript, costs: list[float]) -> Shares:
    most = transcript.rules.max_turns
    *earlier, last = costs
    shares, left = [], float(most)
    for cost in (*earlier, last + _unplayed(transcript)):
        charged = min(cost, left)  # with free refusals a game has more turns
        shares.append(charged / most)
        left -= charged
    return tuple(shares)


def _mean(score: Score, worst: float, transcript: Transcript, _solver: Solver) -> Shares:
    return _mean_shares(transcript, _scores(score, transcript), worst)


def _cost(score: Score, transcript: Transcript, _solver: Solver) -> Shares:
    return _cost_shares(transcript, _scores(score, transcript))


def _latest(score: Score, worst: float, transcript: Transcript, _solver: Solver) -> Shares:
    # Shares are changes, so they add up to the last value.
    values = _scores(score, transcript)
    if _unplayed(transcript):
        values[-1] = worst
    return (values[0], *(after - before for before, after in pairwise(values)))


def _check_length(solver: Solver, transcript: Transcript) -> None:
    if solver.words.word_length != len(transcript.secret):
        raise RewardError(
            f"the game has {len(transcript.secret)} letters, but the solver's list has {solver.words.word_length}; "
            "create the solver from the game's word list"
        )


_UNIT: Range = (0.0, 1.0)
_ZERO: Range = (0.0, 0.0)
_ONE: Range = (1.0, 1.0)
_FEEDBACK: Range = (LOWEST_FEEDBACK, 1.0)
_VARIETY: Range = (LOWEST_VARIETY, 1.0)

COMPONENTS: Mapping[str, Component] = MappingProxyType(
    {
        "win": Component(_win, _ZERO, _ZERO, _ONE),
        "speed": Component(_speed, _ZERO, _ZERO, _UNIT),
        "win_per_guess": Component(_win_per_guess, _ZERO, _ZERO, _UNIT),
        "greens": Component(partial(_latest, partial(_marks, "G"), 0.0), _UNIT, _UNIT, _ONE),
        "yellows": Component(partial(_latest, partial(_marks, "Y"), 0.0), _UNIT, _UNIT, _ZERO),
        "variety": Component(partial(_latest, _variety, LOWEST_VARIETY), _VARIETY, _VARIETY, _ONE),
        "format": Component(partial(_mean, _format, 0.0), _UNIT, _ONE, _UNIT),
        "valid_word": Component(partial(_mean, _valid_word, 0.0), _UNIT, _ONE, _UNIT),
        "length": Component(partial(_mean, _length, 0.0), _UNIT, _ONE, _UNIT),
        "consistency": Component(partial(_mean, _consistency, 0.0), _UNIT, _UNIT, _UNIT),
        "feedback": Component(partial(_mean, _feedback, LOWEST_FEEDBACK), _FEEDBACK, _FEEDBACK, _FEEDBACK),
        "information": Component(_information, _UNIT, _UNIT, _UNIT, asks_solver=True),
        "regret": Component(_regret, _UNIT, _UNIT, _UNIT, asks_solver=True),
        "quick_regret": Component(partial(_regret, quick=True), _UNIT, _UNIT, _UNIT, asks_solver=True),
        "repeat": Component(partial(_cost, _repeat), _UNIT, _UNIT, _UNIT),
        "overlong": Component(partial(_cost, _overlong), _UNIT, _UNIT, _UNIT),
        "rule_break": Component(_rule_break, _UNIT, _ZERO, _UNIT),
    }
)
"""All components by name; docs/guides/rewards.md says what each is."""

_ROUNDING = 1e-9


def find_component(name: str) -> Component:
    """Return a component by name, or your own by import path, `module:attribute`.

    Your own is a pure function of the finished transcript and the solver. It returns one number per own turn, and their
    sum must lie in 0 to 1 for every game. To state other ranges, name a `Component`. Every result is checked, since
    `Rubric` relies on the ranges to keep losses below wins.
    """
    if name in COMPONENTS:
        return COMPONENTS[name]
    if ":" not in name:
        known = ", ".join(COMPONENTS)
        raise RewardError(f"unknown reward component {name!r}; known are {known}, and your own as module:attribute")
    own = resolve(name, "reward component", RewardError, takes="transcript, solver")
    if not isinstance(own, Component):
        # It can ask the solver, so callers must prepare one.
        own = Component(own, _UNIT, _UNIT, _UNIT, asks_solver=True)
    return replace(own, compute=partial(_checked_shares, name, own))


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
