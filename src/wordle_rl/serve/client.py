"""`WordleClient`: a typed client of the server, asynchronous or, with `.sync()`, synchronous.

async with WordleClient("http://127.0.0.1:8000") as env:
    result = await env.reset(seed=7)
    while not result.done:
        result = await env.step(WordleAction(message=reply_to(result.observation.messages)))
"""

from __future__ import annotations

from typing import Any

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient

from wordle_rl.serve.types import WordleAction, WordleObservation, WordleState


class WordleClient(EnvClient[WordleAction, WordleObservation, WordleState]):
    """A session on a server.

    Args:
        base_url: Address of the server.
        token: Token of the server, if it needs one.
        options: See openenv's `EnvClient`.
    """

    def __init__(self, base_url: str | None = None, *, token: str | None = None, **options: Any) -> None:
        headers = dict(options.pop("headers", None) or {})
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        super().__init__(base_url, headers=headers or None, **options)

    def _step_payload(self, action: WordleAction) -> dict[str, Any]:
        return {"message": action.message}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[WordleObservation]:
        reward, done = payload.get("reward"), payload.get("done", False)
        observation = WordleObservation(**payload.get("observation", {}), reward=reward, done=done)
        return StepResult(observation=observation, reward=reward, done=done)

    def _parse_state(self, payload: dict[str, Any]) -> WordleState:
        return WordleState(**payload)
