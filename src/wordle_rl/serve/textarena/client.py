"""A client for the TextArena protocol; openenv's `textarena_env.client` is not an installable package."""

from __future__ import annotations

from typing import Any

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient

from wordle_rl.serve.textarena.models import TextArenaAction, TextArenaObservation, TextArenaState


class TextArenaEnv(EnvClient[TextArenaAction, TextArenaObservation, TextArenaState]):
    """One session on a server of the TextArena protocol, ours or openenv's.

    `TextArenaEnv(base_url=...)` is asynchronous; `.sync()` returns a synchronous one. A client plays one game at a
    time; `new_session()` opens another.
    """

    def _step_payload(self, action: TextArenaAction) -> dict[str, Any]:
        return {"message": action.message}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[TextArenaObservation]:
        observed = {**payload["observation"], "reward": payload.get("reward"), "done": payload.get("done", False)}
        observation = TextArenaObservation.model_validate(observed)
        return StepResult(observation=observation, reward=observation.reward, done=observation.done)

    def _parse_state(self, payload: dict[str, Any]) -> TextArenaState:
        return TextArenaState.model_validate(payload)
