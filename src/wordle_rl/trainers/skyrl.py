"""SkyRL: a `BaseTextEnv` for its generator, and the rows of its data set.

from wordle_rl.trainers.skyrl import dataset_rows, register

register()
rows = dataset_rows(count=256)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import skyrl_gym
from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput, ConversationType

from wordle_rl.trainers.games import LoopSettings, game_source, task_of

ENV_ID = "wordle"


class WordleSkyRLEnv(BaseTextEnv):
    """One game. SkyRL makes one for each repetition of a row, so a group shares the row's game.

    `env_config` holds `LoopSettings` by name, `extras` the row.
    """

    def __init__(self, env_config: Mapping[str, Any] | None = None, extras: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        source = game_source(env_config)
        self._task = task_of(extras or {})
        self._game = source.open(self._task)
        self.max_turns = source.context.prompter.rules.max_replies

    def init(self, prompt: ConversationType) -> tuple[ConversationType, dict[str, Any]]:  # noqa: ARG002
        """Return the opening of the game. The row's own prompt has the same text and is not read."""
        return list(self._game.prompt), self._task.model_dump(mode="json")

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Play one reply. The rewards of a game add up to the rubric's."""
        self.turns += 1
        result = self._game.step(action)
        return BaseTextEnvStepOutput(
            observations=list(result.messages), reward=result.reward, done=result.done, metadata={}
        )

    def get_metrics(self) -> dict[str, Any]:
        """Return figures of the finished game. SkyRL does not report a game it cut off, so that has none."""
        return self._game.summary() if self._game.over else {}


def register() -> None:
    """Register the environment with SkyRL as `wordle`, once."""
    if ENV_ID not in skyrl_gym.envs.registration.registry:
        skyrl_gym.register(id=ENV_ID, entry_point=f"{__name__}:{WordleSkyRLEnv.__name__}")


def dataset_rows(settings: LoopSettings | None = None, *place: Any, **draw: Any) -> list[dict[str, Any]]:
    """Return rows of SkyRL's prompt data set.

    `settings` are those of the environment's configuration; the rest are the arguments of `GameSource.rows`.
    """
    return [{"env_class": ENV_ID, **row} for row in game_source(settings).rows(*place, **draw)]
