"""SkyRL: a `BaseTextEnv` for its generator, and the rows of its data set.

from wordle_rl.integrations.skyrl_env import dataset_rows, register

register()
rows = dataset_rows(count=256)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import skyrl_gym
from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput, ConversationType

from wordle_rl.integrations.games import LoopSettings, game_source, task_of
from wordle_rl.words.split import SplitName

ENV_ID = "wordle"


class WordleSkyRLEnv(BaseTextEnv):
    """One game. SkyRL makes one for each repetition of a row, so a group shares what the row says.

    Args:
        env_config: `LoopSettings` by name, as SkyRL's configuration has them.
        extras: The row, which names the game; what else SkyRL puts there is ignored.

    Raises:
        ConfigError: If the row names no game.
    """

    def __init__(self, env_config: Mapping[str, Any] | None = None, extras: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        source = game_source(env_config)
        self._task = task_of(extras or {})
        self._game = source.open(self._task)
        self.max_turns = source.context.prompter.rules.max_replies

    def init(self, prompt: ConversationType) -> tuple[ConversationType, dict[str, Any]]:  # noqa: ARG002
        """The opening of the game; the row's own prompt is the same text and is not read."""
        return list(self._game.prompt), self._task.model_dump(mode="json")

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Play one reply; the rewards of a game add up to the rubric's.

        Raises:
            RuntimeError: If the game is over.
        """
        self.turns += 1
        result = self._game.step(action)
        return BaseTextEnvStepOutput(
            observations=list(result.messages), reward=result.reward, done=result.done, metadata={}
        )

    def get_metrics(self) -> dict[str, Any]:
        """Figures of the finished game; none of one that SkyRL broke off, whose end it does not report."""
        return dict(self._game.summary()) if self._game.over else {}


def register() -> None:
    """Make the environment known to SkyRL under `wordle`, once."""
    if ENV_ID not in skyrl_gym.envs.registration.registry:
        skyrl_gym.register(id=ENV_ID, entry_point=f"{__name__}:{WordleSkyRLEnv.__name__}")


def dataset_rows(
    settings: LoopSettings | None = None,
    split: SplitName = "train",
    count: int | None = None,
    *,
    max_given: int = 0,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Rows of SkyRL's prompt data set: the opening, the environment, and the game by its place.

    Args:
        settings: The same as the environment's configuration.
        split: Part of the answers.
        count: How many; None: all.
        max_given: 0 to this many random prefix guesses each.
        seed: Of the prefix guesses.
    """
    source = game_source(settings)
    return [
        {"prompt": list(source.open(task).prompt), "env_class": ENV_ID, **task.model_dump(mode="json")}
        for task in source.tasks(split, count, max_given=max_given, seed=seed)
    ]
