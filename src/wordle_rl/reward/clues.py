"""How a guess uses the clues on the board: letters, consistency, information."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from wordle_rl.env import Transcript
from wordle_rl.game import Turn, violates_clues
from wordle_rl.prompt import Knowledge, knowledge_of
from wordle_rl.solver import Solver

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
"""The lowest `feedback_use` of a turn; the highest is `5 * PLACE_KEPT`, which is 1."""


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


def feedback_use(turn: Turn, earlier: Sequence[Turn]) -> float:
    """Return five times the mean letter score of a guess, -2.5 to 1; for five letters that is the sum."""
    guess = turn.guess or ""
    scores = letter_scores(guess, knowledge_of(earlier, len(guess)))
    return 5 * sum(scores) / len(scores)


def is_consistent(turn: Turn, earlier: Sequence[Turn]) -> bool:
    """True if a guess fits all marks before it."""
    return turn.guess is not None and not violates_clues(turn.guess, earlier)


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
