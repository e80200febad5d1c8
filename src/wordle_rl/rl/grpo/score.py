"""Score: the reward of each game of a group, and the advantage of each of its turns."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from wordle_rl.config import GRPOTraining
from wordle_rl.env import Transcript
from wordle_rl.reward import RewardBreakdown, Rubric, with_candidates
from wordle_rl.rl.advantages import CREDITS, TurnValues, is_constant
from wordle_rl.rl.grpo.play import PlayedGame
from wordle_rl.rl.setup import GameSetup, Scored


@dataclass(frozen=True, slots=True)
class Group:
    """Scored games that share a secret and an initial state.

    Attributes:
        games: The games.
        reward_std: Standard deviation of their total rewards; with candidates, of a turn's values, averaged over turns.
        is_constant: Every advantage is zero: there is nothing to learn from the group.
    """

    games: list[Scored]
    reward_std: float
    is_constant: bool


def score_group(group: Sequence[PlayedGame], rubric: Rubric, setup: GameSetup, settings: GRPOTraining) -> Group:
    """Score the games of a group and compare them.

    Args:
        group: Games that share a secret and an initial state.
        rubric: The rewards of this step.
        setup: Words and solver.
        settings: `credit` and `scale_advantages`; with `turn_candidates` above 1, candidates are compared instead.
    """
    rewards = [rubric.score(game.trajectory.transcript, setup.solver) for game in group]
    if settings.turn_candidates > 1:
        live: list[int | None] = [None] * len(group)
        advantages = [candidate_advantages(game.candidate_values) for game in group]
        std = statistics.fmean(statistics.pstdev(values) for game in group for values in game.candidate_values)
    else:
        live = [num_live_turns(game.trajectory.transcript, setup) for game in group]
        advantages = _game_advantages(rewards, live, settings)
        std = statistics.pstdev(reward.total for reward in rewards)
    games = [
        Scored(game.trajectory, reward, values, turns)
        for game, reward, values, turns in zip(group, rewards, advantages, live, strict=True)
    ]
    return Group(games, std, is_constant(advantages))


def candidate_advantages(values: Sequence[TurnValues]) -> TurnValues:
    """The value of each candidate above the mean of its turn, all turns in a row.

    Examples:
        >>> candidate_advantages([(0.0, 1.0), (0.25, 0.25)])
        (-0.5, 0.5, 0.0, 0.0)
    """
    return tuple(value - statistics.fmean(turn) for turn in values for value in turn)


def _game_advantages(
    rewards: Sequence[RewardBreakdown], live: Sequence[int | None], settings: GRPOTraining
) -> list[TurnValues]:
    """The advantage of every own turn; 0.0 for turns after the last that is compared."""
    compared = [reward.turn_rewards[:turns] for reward, turns in zip(rewards, live, strict=True)]
    advantages = CREDITS[settings.credit](compared, scale=settings.scale_advantages)
    return [
        values + (0.0,) * (len(reward.turn_rewards) - len(values))
        for values, reward in zip(advantages, rewards, strict=True)
    ]


def num_live_turns(transcript: Transcript, setup: GameSetup) -> int:
    """The number of own turns to train on, at least 1.

    All of them, or for a secret outside the answers those at which some answer was still possible.
    """
    if transcript.secret in setup.words.answer_index:
        return len(transcript.own_turns)
    return max(1, sum(len(candidates) > 0 for _, candidates in with_candidates(transcript, setup.solver)))
