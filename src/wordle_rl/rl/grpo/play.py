"""Play: the games of some groups in lockstep, whole games or games with several candidates for every turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from wordle_rl.config import GRPOTraining, RewardSettings, SamplingSettings
from wordle_rl.game import Turn
from wordle_rl.reward import Rubric
from wordle_rl.rl.advantages import TurnValues
from wordle_rl.rl.grpo.branching import play_branching, regret_judge, reward_judge
from wordle_rl.rl.setup import GameSetup
from wordle_rl.rollout import InitialState, Trajectory, groups_of, play
from wordle_rl.samplers.base import Sampler
from wordle_rl.solver.boards import fitting_answers

OpenSampler = Callable[[SamplingSettings, int], AbstractContextManager[tuple[Sampler, int | None]]]
"""Opens a sampler over the policy's current weights, given settings and a seed.

Its context yields the sampler and the longest prompt it takes, in tokens (None: any).
"""


@dataclass(frozen=True, slots=True)
class PlayedGame:
    """A game before it is scored.

    Attributes:
        trajectory: The game. With candidates, one segment for each of them.
        candidate_values: With candidates, for each own turn the value of each; else empty.
    """

    trajectory: Trajectory
    candidate_values: tuple[TurnValues, ...] = ()


class GroupPlayer:
    """Plays a group of games from each start.

    Args:
        setup: Words, prompts, solver.
        settings: `group_size`, and `turn_candidates`, which divides it. Candidates are judged by the reward unless it
            is the default one, and then by quick regret.
    """

    def __init__(self, setup: GameSetup, settings: GRPOTraining) -> None:
        self._words, self._prompter = setup.words, setup.prompter
        self._num_candidates = settings.turn_candidates
        self._games_per_group = settings.group_size // settings.turn_candidates
        self._solver = setup.solver
        self._judged_by_reward = settings.reward != RewardSettings()
        self._regret_judge = regret_judge(setup.solver)
        self._fitting = fitting_answers(setup.solver)

    def __call__(
        self, starts: Sequence[InitialState], sampler: Sampler, max_prompt_tokens: int | None, rubric: Rubric
    ) -> list[list[PlayedGame]]:
        """One group per start, in order; `rubric`: the rewards of this step."""
        size = self._games_per_group
        repeated = [start for start in starts for _ in range(size)]
        if self._num_candidates == 1:
            trajectories = play(
                repeated,
                self._words,
                self._prompter,
                sampler,
                max_prompt_tokens=max_prompt_tokens,
                should_stop=self.should_stop,
            )
            return [[PlayedGame(trajectory) for trajectory in group] for group in groups_of(trajectories, size)]
        branched = play_branching(
            repeated,
            self._words,
            self._prompter,
            sampler,
            self._num_candidates,
            reward_judge(rubric, self._solver) if self._judged_by_reward else self._regret_judge,
            max_prompt_tokens=max_prompt_tokens,
        )
        games = [
            PlayedGame(
                Trajectory(game.transcript, tuple(s for turn in game.candidates for s in turn), game.error),
                game.values,
            )
            for game in branched
        ]
        return [games[first : first + size] for first in range(0, len(games), size)]

    def should_stop(self, secret: str, board: Sequence[Turn]) -> bool:
        """True once no answer fits the board, which only happens with secrets outside the answers.

        Later guesses of such a game are not trained on.
        """
        return secret not in self._words.answer_index and not len(self._fitting(board))
