"""Score the games of a group: rewards, and the advantage of each turn."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from wordle_rl.config import GRPOTraining
from wordle_rl.env import Transcript
from wordle_rl.reward import RewardBreakdown, Rubric, with_candidates
from wordle_rl.rollout import Trajectory
from wordle_rl.train.advantages import TurnValues, find_credit, is_constant
from wordle_rl.train.games import GameSetup, Scored


@dataclass(frozen=True, slots=True)
class PlayedGame:
    """A game before it is scored.

    Attributes:
        trajectory: The game. With candidates, it has one segment for each of them.
        candidate_values: With candidates, their values for each own turn; otherwise empty.
    """

    trajectory: Trajectory
    candidate_values: tuple[TurnValues, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """Scored games that share a secret and an initial state.

    Attributes:
        games: The games that did not fail.
        reward_std: Standard deviation of their total rewards; with candidates, of the values within a turn, averaged
            over turns.
        is_constant: True if every advantage is zero, so that there is nothing to learn.
        failed: Reasons of the games that were dropped: sampling failed, or the reward is not finite.
    """

    games: list[Scored]
    reward_std: float
    is_constant: bool
    failed: tuple[str, ...] = ()


def score_group(group: Sequence[PlayedGame], rubric: Rubric, setup: GameSetup, settings: GRPOTraining) -> Group:
    """Score the games of a group and compare them.

    Games whose sampling failed or whose reward is not finite are dropped; the others form the baseline.

    Args:
        group: Games that share a secret and an initial state.
        rubric: The rewards of this step.
        setup: Words and solver.
        settings: `credit` and `scale_advantages`; with `turn_candidates` above 1, compare candidates instead.
    """
    failed = [game.trajectory.error for game in group if game.trajectory.error is not None]
    played = [game for game in group if game.trajectory.error is None]
    scored = [(game, rubric.score(game.trajectory.transcript, setup.solver)) for game in played]
    finite = [(game, reward) for game, reward in scored if _is_finite(game, reward)]
    failed += ["its reward is not finite"] * (len(scored) - len(finite))
    group, rewards = [game for game, _ in finite], [reward for _, reward in finite]
    live: list[int | None] = [None] * len(group)
    std = 0.0
    if len(group) < (2 if settings.turn_candidates == 1 else 1):  # nothing to compare with
        advantages = [(0.0,) * len(reward.turn_rewards) for reward in rewards]
    elif settings.turn_candidates > 1:
        advantages = [candidate_advantages(game.candidate_values) for game in group]
        std = statistics.fmean(statistics.pstdev(values) for game in group for values in game.candidate_values)
    else:
        live = [num_live_turns(game.trajectory.transcript, setup) for game in group]
        advantages = _game_advantages(rewards, live, settings)
        std = statistics.pstdev(reward.total for reward in rewards)
    trajectories = [game.trajectory for game in group]
    games = [Scored(*of) for of in zip(trajectories, rewards, advantages, live, strict=True)]
    return Group(games, std, is_constant(advantages), tuple(failed))


def _is_finite(game: PlayedGame, reward: RewardBreakdown) -> bool:
    values = (reward.total, *reward.turn_rewards, *(value for turn in game.candidate_values for value in turn))
    return all(map(math.isfinite, values))


def candidate_advantages(values: Sequence[TurnValues]) -> TurnValues:
    """Centre the values of the candidates within each turn, and concatenate the turns.

    Examples:
        >>> candidate_advantages([(0.0, 1.0), (0.25, 0.25)])
        (-0.5, 0.5, 0.0, 0.0)
    """
    return tuple(value - statistics.fmean(turn) for turn in values for value in turn)


def _game_advantages(
    rewards: Sequence[RewardBreakdown], live: Sequence[int | None], settings: GRPOTraining
) -> list[TurnValues]:
    # Only live turns enter the baseline; the turns after them get 0.0.
    compared = [reward.turn_rewards[:turns] for reward, turns in zip(rewards, live, strict=True)]
    advantages = find_credit(settings.credit)(compared, scale=settings.scale_advantages)
    return [
        values + (0.0,) * (len(reward.turn_rewards) - len(values))
        for values, reward in zip(advantages, rewards, strict=True)
    ]


def num_live_turns(transcript: Transcript, setup: GameSetup) -> int:
    """Count the own turns to train on, at least 1.

    These are all of them or, if the secret is outside the answers, those at which some answer still fits the board.
    """
    if transcript.secret in setup.words.answer_index:
        return len(transcript.own_turns)
    return max(1, sum(len(candidates) > 0 for _, candidates in with_candidates(transcript, setup.solver)))
