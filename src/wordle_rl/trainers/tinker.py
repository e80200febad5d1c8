"""Tinker: environments and groups in the types of its cookbook.

builder = WordleGroupBuilder(BoardTask(index=7), codec, group_size=16)
envs = await builder.make_envs()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tinker
from tinker_cookbook.rl.types import Env, EnvGroupBuilder, StepResult

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.trainers.games import BoardTask, LoopSettings, TokenEnv, game_source


class WordleTinkerEnv(Env):
    """One game over token ids."""

    def __init__(self, env: TokenEnv) -> None:
        self._env = env

    async def initial_observation(self) -> tuple[tinker.ModelInput, list[int]]:
        """Return the first prompt, and the ids at which sampling stops."""
        return tinker.ModelInput.from_ints(list(self._env.initial_ids)), list(self._env.stop_ids)

    async def step(self, action: Sequence[int], *, extra: Mapping[str, Any] | None = None) -> StepResult:  # noqa: ARG002
        """Play one completion. The rewards of a game add up to the rubric's."""
        step = self._env.step(action)
        return StepResult(
            reward=step.reward,
            episode_done=step.done,
            next_observation=tinker.ModelInput.from_ints(list(step.next_ids)),
            next_stop_condition=list(self._env.stop_ids),
            metrics=self._env.game.summary() if step.done else {},
        )


@dataclass(frozen=True)
class WordleGroupBuilder(EnvGroupBuilder):
    """The games of a group: one task, so one secret and the same prefix guesses."""

    task: BoardTask
    codec: ChatCodec
    group_size: int
    settings: LoopSettings = LoopSettings()
    max_prompt_tokens: int | None = None

    async def make_envs(self) -> Sequence[Env]:
        """Make one environment per game."""
        source = game_source(self.settings)
        return [
            WordleTinkerEnv(TokenEnv(source.open(self.task), self.codec, self.max_prompt_tokens))
            for _ in range(self.group_size)
        ]

    def logging_tags(self) -> list[str]:
        """Return the tags under which metrics are averaged."""
        return ["wordle"]
