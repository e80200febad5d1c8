"""NeMo Gym: a resources server for its `gymnasium_agent`, and the rows of its data set.

    python -m wordle_rl.trainers.nemo_gym

NeMo Gym's launcher starts this as a server's `entrypoint`. Its settings are those of the server in its YAML.
"""

from __future__ import annotations

from typing import Any

from nemo_gym.base_resources_server import BaseResourcesServerConfig
from nemo_gym.openai_utils import NeMoGymResponse
from resources_servers.gymnasium import GymnasiumServer, extract_text

from wordle_rl.trainers.games import LoopSettings, game_source, task_of


class WordleServerConfig(BaseResourcesServerConfig):
    """Settings of the server and its games."""

    wordle: LoopSettings = LoopSettings()
    """Words, rules, wording and reward."""


class WordleResourcesServer(GymnasiumServer):
    """Games of all sessions. A session plays the game that its row names, so a group shares it."""

    config: WordleServerConfig
    ray_enabled = False

    async def reset(self, metadata: dict[str, Any], session_id: str | None = None) -> tuple[str | None, dict[str, Any]]:
        """Begin the row's game. The row's input already holds the opening."""
        task = task_of(metadata)
        self.session_state[session_id] = game_source(self.config.wordle).open(task)
        return None, task.model_dump(mode="json")

    async def step(
        self,
        action: NeMoGymResponse,
        metadata: dict[str, Any],  # noqa: ARG002
        session_id: str | None = None,
    ) -> tuple[str | None, float, bool, bool, dict[str, Any]]:
        """Play the text of a response. The rewards of a game add up to the rubric's."""
        game = self.session_state[session_id]
        result = game.step(extract_text(action))
        observation = result.messages[0]["content"] if result.messages else None
        info = game.summary() if result.done else {}
        return observation, result.reward, result.terminated, result.truncated, info


def dataset_rows(
    settings: LoopSettings | None = None, *place: Any, agent: str = "wordle_gymnasium_agent", **draw: Any
) -> list[dict[str, Any]]:
    """Return rows of NeMo Gym's data set: the opening as input, the agent of its configuration, the game's place.

    `place` and `draw` are the arguments of `GameSource.rows`.
    """
    shared = {"agent_ref": {"type": "responses_api_agents", "name": agent}}
    rows = game_source(settings).rows(*place, **draw)
    return [{"responses_create_params": {"input": row.pop("prompt")}, **shared, **row} for row in rows]


if __name__ == "__main__":
    WordleResourcesServer.run_webserver()
