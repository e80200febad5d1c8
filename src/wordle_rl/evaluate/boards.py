"""Boards with earlier turns, as initial states of an evaluation's games."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from wordle_rl.config import PrefixChoice
from wordle_rl.data.game_record import GameRecord
from wordle_rl.evaluate.records import occurrences
from wordle_rl.game import Outcome, Turn, score_guess
from wordle_rl.solver import Solver
from wordle_rl.solver.boards import fitting_answers
from wordle_rl.train.starts import random_given


def prefix_boards(
    secrets: Sequence[str], solver: Solver, max_turns: int, choice: PrefixChoice, seed: int, *, hard_mode: bool = False
) -> list[tuple[str, ...]]:
    """Draw earlier guesses for each secret, 0 to `max_turns` of them with equal chances, never the secret itself.

    A board depends only on the seed, its secret and how often that came before, so all players begin at the same
    boards. There are fewer guesses if nothing but the secret fits any more.

    Args:
        secrets: The words to find.
        solver: Solver of their word list.
        max_turns: Most earlier turns.
        choice: `consistent`: answers that fit all marks so far, as in sensible play; `random`: any answers, as for the
            initial states of training.
        seed: Random seed.
        hard_mode: Random guesses also use revealed hints; consistent ones always do.
    """
    fitting = fitting_answers(solver)
    boards = []
    for secret, occurrence in occurrences(secrets):
        rng = random.Random(f"{seed}:{secret}:{occurrence}:boards")
        if choice == "random":
            boards.append(random_given(solver.words, secret, rng, max_turns, hard_mode=hard_mode))
        else:
            boards.append(_consistent(secret, solver, fitting, rng, rng.randint(0, max_turns)))
    return boards


def _consistent(
    secret: str,
    solver: Solver,
    fitting: Callable[[Sequence[Turn]], NDArray[np.int32]],
    rng: random.Random,
    count: int,
) -> tuple[str, ...]:
    turns: list[Turn] = []
    for _ in range(count):
        left = [word for word in (solver.words.answers[place] for place in fitting(turns)) if word != secret]
        if not left:
            break
        word = rng.choice(left)
        turns.append(Turn(word, score_guess(secret, word), Outcome.SCORED))
    return tuple(turn.guess or "" for turn in turns)


def by_earlier_turns(records: Sequence[GameRecord]) -> dict[int, list[GameRecord]]:
    """Group games by their number of prefix guesses, in rising order, without errors."""
    played = [record for record in records if not record.failed]
    return {
        count: [record for record in played if record.num_prefix == count]
        for count in sorted({record.num_prefix for record in played})
    }
