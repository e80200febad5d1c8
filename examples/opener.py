"""A reward for a taste: games that open with a word of three or more different vowels.

    wordle-rl run grpo --out runs/opener \\
        --grpo.reward.weights '{ win = 1.0, speed = 0.5, "examples.opener:vowels" = 0.5 }'

docs/grpo.md has what came of it.
"""

from collections.abc import Sequence

from wordle_rl.env import Transcript
from wordle_rl.solver import Solver


def vowels(transcript: Transcript, _solver: Solver) -> Sequence[float]:
    """Return 1 on the first turn if its guess is a listed word with three different vowels; else, and later, 0."""
    turns = transcript.own_turns
    first = turns[0].turn if turns else None
    opened = first is not None and first.marks is not None and len({*(first.guess or "")} & {*"aeiou"}) >= 3
    return [float(opened and place == 0) for place in range(len(turns))]
