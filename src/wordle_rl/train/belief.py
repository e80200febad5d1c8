"""A reward from the policy itself: by how much the marks of a guess raise its belief in the secret.

    belief at a board     b = log pi(secret | board)          the trained model's, at the temperature of play
    reward of a turn      clip(b after - b before) / clip     within -1 and 1, times `grpo.belief_weight`

A won game ends at log 1 = 0. The last turn of a lost game earns 0: no board follows it. Without the clip the rewards of
a game would sum to b at its end - b at its start, whatever was guessed in between (potential-based shaping, Ng et al.
1999): a win ends highest, and the turns share what it gained. The clip breaks this, but without it one board that the
policy thought impossible outweighs a whole batch.

A component of a `Rubric` sees the transcript alone. This one needs the policy, so the trainer computes it, before
credit.

Source: IGPO, arXiv:2510.14967.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from wordle_rl.prompt import Prompter
from wordle_rl.rollout import Trajectory
from wordle_rl.train.advantages import TurnValues
from wordle_rl.train.example import Example
from wordle_rl.train.scored_games import boards_of

if TYPE_CHECKING:
    from wordle_rl.train.learner import Learner


def beliefs_of(games: Sequence[Trajectory], learner: Learner, prompter: Prompter) -> list[TurnValues]:
    """Return log pi(secret | board), in nats, at the board before each own turn of each game."""
    rows: list[Example] = []
    counts: list[int] = []
    for game in games:
        reply = learner.codec.reply_ids(prompter.reply(game.transcript.secret, ""))
        boards = [board.prompt_ids for board, _, _ in boards_of(game)]
        rows += [Example([*ids, *reply], [0] * len(ids) + [1] * len(reply)) for ids in boards]
        counts.append(len(boards))
    found = iter(learner.logprobs(rows))
    return [tuple(next(found) for _ in range(count)) for count in counts]


def belief_rises(beliefs: TurnValues, clip: float, *, won: bool) -> TurnValues:
    """Return the share of each turn, within -1 and 1.

    Examples:
        >>> belief_rises((-8.0, -7.0, -2.0), 2.0, won=True)
        (0.5, 1.0, 1.0)
        >>> belief_rises((-8.0, -7.0, -9.0), 2.0, won=False)
        (0.5, -1.0, 0.0)
    """
    rises = [after - before for before, after in pairwise((*beliefs, 0.0 if won else beliefs[-1]))]
    return tuple(max(-clip, min(clip, rise)) / clip for rise in rises)
