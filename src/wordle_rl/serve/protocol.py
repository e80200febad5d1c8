"""OpenEnv's messages on a WebSocket, text in and text out, and the refusals of the server.

The messages are those of openenv's own endpoint, so its clients work here. On an invalid message that endpoint closes
the connection or does not answer; here the message is refused and the session continues.
"""

from __future__ import annotations

from enum import StrEnum
from http import HTTPStatus
from typing import Any, Generic, TypeVar

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.serialization import serialize_observation
from openenv.core.env_server.types import Action, Observation, WSErrorCode
from pydantic import ValidationError
from pydantic_core import from_json, to_json


class Reason(StrEnum):
    """Reason of a refusal."""

    BAD_JSON = "bad_json"
    """Not JSON, or a binary frame."""
    BAD_MESSAGE = "bad_message"
    """JSON that is not a message of the protocol, or has a wrong field."""
    UNKNOWN_TYPE = "unknown_type"
    NO_GAME = "no_game"
    """A reply before the first reset."""
    GAME_OVER = "game_over"
    """A reply after the end of the game."""
    CLOSED = "closed"
    """The session was closed."""
    UNKNOWN_TASK = "unknown_task"
    """A split or an index that does not exist."""
    HELD_OUT = "held_out"
    """A held-out split that this server does not serve."""
    BAD_OPTION = "bad_option"
    """A word list, a preset or a board that this server does not offer."""
    IDLE = "idle"
    """No message for too long."""
    FULL = "full"
    """No session is free."""
    SHUTTING_DOWN = "shutting_down"
    """The server is stopping."""
    FAILED = "failed"
    """An internal error; see the log of the server."""


_CODES = {
    Reason.BAD_JSON: (WSErrorCode.INVALID_JSON, HTTPStatus.BAD_REQUEST),
    Reason.BAD_MESSAGE: (WSErrorCode.VALIDATION_ERROR, HTTPStatus.UNPROCESSABLE_ENTITY),
    Reason.UNKNOWN_TYPE: (WSErrorCode.UNKNOWN_TYPE, HTTPStatus.BAD_REQUEST),
    Reason.NO_GAME: (WSErrorCode.EXECUTION_ERROR, HTTPStatus.CONFLICT),
    Reason.GAME_OVER: (WSErrorCode.EXECUTION_ERROR, HTTPStatus.CONFLICT),
    Reason.CLOSED: (WSErrorCode.SESSION_ERROR, HTTPStatus.GONE),
    Reason.UNKNOWN_TASK: (WSErrorCode.VALIDATION_ERROR, HTTPStatus.NOT_FOUND),
    Reason.HELD_OUT: (WSErrorCode.VALIDATION_ERROR, HTTPStatus.FORBIDDEN),
    Reason.BAD_OPTION: (WSErrorCode.VALIDATION_ERROR, HTTPStatus.UNPROCESSABLE_ENTITY),
    Reason.IDLE: (WSErrorCode.SESSION_ERROR, HTTPStatus.GONE),
    Reason.FULL: (WSErrorCode.CAPACITY_REACHED, HTTPStatus.SERVICE_UNAVAILABLE),
    Reason.SHUTTING_DOWN: (WSErrorCode.SESSION_ERROR, HTTPStatus.SERVICE_UNAVAILABLE),
    Reason.FAILED: (WSErrorCode.EXECUTION_ERROR, HTTPStatus.INTERNAL_SERVER_ERROR),
}


class Refusal(Exception):
    """A request that is answered by an error; the message can be shown to a player.

    Attributes:
        reason: The kind of error.
        details: More fields of the answer.
    """

    def __init__(self, reason: Reason, message: str, **details: Any) -> None:
        super().__init__(message)
        self.reason = reason
        self.details = details

    @property
    def code(self) -> WSErrorCode:
        """OpenEnv's code of the kind."""
        return _CODES[self.reason][0]

    @property
    def status(self) -> int:
        """HTTP status of the kind."""
        return int(_CODES[self.reason][1])

    def as_json(self) -> dict[str, Any]:
        """Return the `data` of an error message: `message`, `code`, `reason`, and the details."""
        return {"message": str(self), "code": self.code.value, "reason": self.reason.value, **self.details}


def refusal_of(error: ValidationError, what: str) -> Refusal:
    """Build a refusal that names the wrong fields, without their contents."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    named = [{"field": ".".join(map(str, fault["loc"]))[:80], "fault": fault["msg"]} for fault in faults[:10]]
    said = "; ".join(f"{fault['field'] or 'message'}: {fault['fault']}" for fault in named[:3])
    return Refusal(Reason.BAD_MESSAGE, f"{what}: {said}", errors=named)


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
