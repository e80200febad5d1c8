"""The messages of a session, text in and text out, and the refusals of the server.

They are those of openenv's own endpoint, so its clients work here. On an invalid message that endpoint closes the
connection or does not answer; here the message is refused and the session continues.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Generic, TypeVar

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.serialization import serialize_observation
from openenv.core.env_server.types import Observation, WSErrorCode
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json, to_json

from wordle_rl.serve.openenv_client import ActionT


class Reason(StrEnum):
    """Reason of a refusal, with OpenEnv's code on a socket and the status over HTTP."""

    def __new__(cls, value: str, code: WSErrorCode, status: HTTPStatus) -> Reason:
        """Make a member whose value is its name on the wire."""
        member = str.__new__(cls, value)
        member._value_, member.code, member.status = value, code, status
        return member

    code: WSErrorCode
    status: HTTPStatus

    BAD_JSON = "bad_json", WSErrorCode.INVALID_JSON, HTTPStatus.BAD_REQUEST
    """Not JSON, or a binary frame."""
    BAD_MESSAGE = "bad_message", WSErrorCode.VALIDATION_ERROR, HTTPStatus.UNPROCESSABLE_ENTITY
    """JSON that is not a message of the protocol, or has a wrong field."""
    UNKNOWN_TYPE = "unknown_type", WSErrorCode.UNKNOWN_TYPE, HTTPStatus.BAD_REQUEST
    NO_GAME = "no_game", WSErrorCode.EXECUTION_ERROR, HTTPStatus.CONFLICT
    """A reply before the first reset."""
    GAME_OVER = "game_over", WSErrorCode.EXECUTION_ERROR, HTTPStatus.CONFLICT
    """A reply after the end of the game."""
    UNKNOWN_TASK = "unknown_task", WSErrorCode.VALIDATION_ERROR, HTTPStatus.NOT_FOUND
    """A split or an index that does not exist."""
    HELD_OUT = "held_out", WSErrorCode.VALIDATION_ERROR, HTTPStatus.FORBIDDEN
    """A held-out split that this server does not serve."""
    BAD_OPTION = "bad_option", WSErrorCode.VALIDATION_ERROR, HTTPStatus.UNPROCESSABLE_ENTITY
    """A word list, a preset or a board that this server does not offer."""
    IDLE = "idle", WSErrorCode.SESSION_ERROR, HTTPStatus.GONE
    """No message for too long."""
    FULL = "full", WSErrorCode.CAPACITY_REACHED, HTTPStatus.SERVICE_UNAVAILABLE
    """No session is free."""
    SHUTTING_DOWN = "shutting_down", WSErrorCode.SESSION_ERROR, HTTPStatus.SERVICE_UNAVAILABLE
    """The server is stopping."""
    FAILED = "failed", WSErrorCode.EXECUTION_ERROR, HTTPStatus.INTERNAL_SERVER_ERROR
    """An internal error; see the log of the server."""


class Refusal(Exception):
    """A request that is answered by an error with more fields in `details`; a player may read the message."""

    def __init__(self, reason: Reason, message: str, **details: Any) -> None:
        super().__init__(message)
        self.reason, self.details = reason, details

    def as_json(self) -> dict[str, Any]:
        """Return the `data` of an error message."""
        return {"message": str(self), "code": self.reason.code.value, "reason": self.reason.value, **self.details}

    def as_text(self) -> str:
        """Encode OpenEnv's error message."""
        return _encoded("error", self.as_json())


ModelT = TypeVar("ModelT", bound=BaseModel)


def checked(kind: type[ModelT], values: dict[str, Any]) -> ModelT:
    """Validate the fields of a request; see `wrong_fields`."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise wrong_fields(error.errors(include_url=False, include_context=False, include_input=False)) from None


def wrong_fields(faults: Sequence[Mapping[str, Any]]) -> Refusal:
    """Name the fields that pydantic found wrong, without their contents."""
    named = [{"field": ".".join(map(str, fault["loc"]))[:80], "fault": fault["msg"]} for fault in faults[:10]]
    said = "; ".join(f"{fault['field'] or 'message'}: {fault['fault']}" for fault in named[:3])
    return Refusal(Reason.BAD_MESSAGE, f"wrong fields: {said}", errors=named)


def _read(text: str) -> tuple[Any, dict[str, Any]]:
    # The type and the data of a message.
    try:
        message = from_json(text, allow_inf_nan=False)
    except ValueError:
        raise Refusal(Reason.BAD_JSON, "the message is not valid JSON; send an object as text") from None
    data = message.get("data", {}) if isinstance(message, dict) else None
    if not isinstance(data, dict):
        raise Refusal(Reason.BAD_MESSAGE, 'the message is not {"type": …, "data": {…}}; send that')
    return message.get("type"), data


def _encoded(kind: str, data: dict[str, Any]) -> str:
    return to_json({"type": kind, "data": data}).decode()


class EnvironmentProtocol(Generic[ActionT]):
    """Protocol of a session with an environment; `action` is the type of its actions."""

    def __init__(self, environment: Environment[ActionT, Any, Any], action: type[ActionT]) -> None:
        self._environment, self._action = environment, action

    async def answer(self, text: str) -> str | None:
        """Answer a message; None if the client closes the session."""
        kind, data = _read(text)
        observation: Observation
        match kind:
            case "step":
                observation = await self._environment.step_async(checked(self._action, data))
            case "reset":
                observation = self._environment.reset(**data)  # takes microseconds
            case "state":
                return _encoded("state", self._environment.state.model_dump(mode="json"))
            case "close":
                return None
            case _:
                raise Refusal(Reason.UNKNOWN_TYPE, "unknown type of message; send reset, step, state or close")
        return _encoded("observation", serialize_observation(observation))
