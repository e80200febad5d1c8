"""OpenEnv's messages on a WebSocket, text in and text out.

The messages are those of openenv's own endpoint, so its clients work here. On an invalid message that endpoint closes
the connection or does not answer; here the message is refused and the session continues.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.serialization import serialize_observation
from openenv.core.env_server.types import Action, Observation
from pydantic import ValidationError
from pydantic_core import from_json, to_json

from wordle_rl.serve.environment import refusal_of
from wordle_rl.serve.errors import Reason, Refusal

ActionT = TypeVar("ActionT", bound=Action)


def encode(message: dict[str, Any]) -> str:
    """Encode a message as JSON."""
    return to_json(message).decode()


def refused(refusal: Refusal) -> str:
    """Encode a refusal as OpenEnv's error message."""
    return encode({"type": "error", "data": refusal.as_json()})


def read_message(text: str) -> dict[str, Any]:
    """Parse a JSON object.

    Raises:
        Refusal: If the text is something else.
    """
    try:
        message = from_json(text, allow_inf_nan=False)
    except ValueError:
        raise Refusal(Reason.BAD_JSON, "the message is not valid JSON; send an object as text") from None
    if not isinstance(message, dict):
        raise Refusal(Reason.BAD_MESSAGE, "the message is not a JSON object; send one with a type")
    return message


def data_of(message: dict[str, Any]) -> dict[str, Any]:
    """Return the `data` of a message; an empty object if there is none.

    Raises:
        Refusal: If it is not an object.
    """
    data = message.get("data", {})
    if not isinstance(data, dict):
        raise Refusal(Reason.BAD_MESSAGE, "data is not a JSON object; send one")
    return data


class EnvironmentProtocol(Generic[ActionT]):
    """Protocol of a session with an environment; `action` is the type of its actions."""

    def __init__(self, environment: Environment[ActionT, Any, Any], action: type[ActionT]) -> None:
        self._environment, self._action = environment, action

    async def answer(self, text: str) -> str | None:
        """Answer a message; None if the client closes the session.

        Raises:
            Refusal: If the answer is an error.
        """
        message = read_message(text)
        kind = message.get("type")
        match kind:
            case "step":
                return _observed(await self._environment.step_async(self._read_action(data_of(message))))
            case "reset":
                return _observed(await self._environment.reset_async(**data_of(message)))
            case "state":
                return encode({"type": "state", "data": self._environment.state.model_dump(mode="json")})
            case "close":
                return None
        raise Refusal(Reason.UNKNOWN_TYPE, "unknown type of message; send reset, step, state or close")

    def _read_action(self, data: dict[str, Any]) -> ActionT:
        try:
            return self._action.model_validate(data)
        except ValidationError as error:
            raise refusal_of(error, "invalid action") from None


def _observed(observation: Observation) -> str:
    return encode({"type": "observation", "data": serialize_observation(observation)})
