"""Refusals of the server. Each has a code of OpenEnv, our own reason, and an HTTP status."""

from __future__ import annotations

from enum import StrEnum
from http import HTTPStatus
from typing import Any

from openenv.core.env_server.types import WSErrorCode


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
