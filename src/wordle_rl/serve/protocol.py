"""The messages of a session, text in and text out, and the refusals of the server.

On `/ws` they are those of openenv's own endpoint, so its clients work here. On an invalid message that endpoint closes
the connection or does not answer; here the message is refused and the session continues.

On `/batch` they have lists instead of single values:

    {"type": "reset", "data": {"games": [{"seed": 1}, {"split": "train", "index": 5, "style": "compact"}]}}
    {"type": "step", "data": {"games": [0, 1], "messages": ["<guess>crane</guess>", "<guess>slate</guess>"]}}
    {"type": "close"}

`games` of a reset has the options of each game, and replaces all games of the session. `games` of a step has numbers of
running games, each at most once. Both are answered by `{"type": "observations", "data": {"observations": […],
"rewards": […], "dones": […]}}` in the same order. A step with a wrong number is refused, and no game takes a turn.
"""

from __future__ import annotations

from enum import StrEnum
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.serialization import serialize_observation
from openenv.core.env_server.types import Observation, WSErrorCode
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json, to_json

from wordle_rl.serve.openenv_client import ActionT, ResetOptions

if TYPE_CHECKING:
    from wordle_rl.serve.tasks import NewGame, ServedGames

MAX_BATCH_GAMES = 4096
"""Most games of a session on `/batch`."""


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
    """Validate the fields of a request; a `Refusal` names the wrong ones, without their contents."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        named = [{"field": ".".join(map(str, fault["loc"]))[:80], "fault": fault["msg"]} for fault in faults[:10]]
        said = "; ".join(f"{fault['field'] or 'message'}: {fault['fault']}" for fault in named[:3])
        raise Refusal(Reason.BAD_MESSAGE, f"wrong fields: {said}", errors=named) from None


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


class BatchReset(BaseModel):
    """Options of the games to begin."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    games: list[ResetOptions] = Field(min_length=1)


class BatchStep(BaseModel):
    """Replies to running games, by number."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    games: list[Annotated[int, Field(ge=0)]] = Field(min_length=1)
    messages: list[str] = Field(min_length=1)


class BatchProtocol:
    """Protocol of a session with many games."""

    def __init__(self, games: ServedGames) -> None:
        self._games = games
        self._playing: list[NewGame] = []

    async def answer(self, text: str) -> str | None:
        """Answer a message; None if the client closes the session."""
        kind, data = _read(text)
        match kind:
            case "step":
                return await self._step(checked(BatchStep, data))
            case "reset":
                return self._reset(checked(BatchReset, data).games)
            case "close":
                return None
        raise Refusal(Reason.UNKNOWN_TYPE, "unknown type of message; send reset, step or close")

    def _reset(self, asked: list[ResetOptions]) -> str:
        if len(asked) > MAX_BATCH_GAMES:
            raise Refusal(
                Reason.BAD_OPTION, f"{len(asked)} games are too many; a session has at most {MAX_BATCH_GAMES}"
            )
        self._playing = [self._games.new_game(options) for options in asked]
        return _observed(self._playing, [None] * len(asked))

    async def _step(self, step: BatchStep) -> str:
        played = self._running(step)
        for game, message in zip(played, step.messages, strict=True):
            game.env.step(message)
        if any(game.asks_solver for game in played):
            rewards = await self._games.in_solver_thread(_rewards_of, played)
        else:
            rewards = _rewards_of(played)
        return _observed(played, rewards)

    def _running(self, step: BatchStep) -> list[NewGame]:
        numbers = step.games
        if not self._playing:
            raise Refusal(Reason.NO_GAME, "no game has begun; send reset first")
        if len(numbers) != len(step.messages):
            raise Refusal(
                Reason.BAD_MESSAGE, f"{len(numbers)} games and {len(step.messages)} messages; give one for each"
            )
        if len(set(numbers)) < len(numbers) or max(numbers) >= len(self._playing):
            raise Refusal(Reason.BAD_MESSAGE, f"give each of games 0 to {len(self._playing) - 1} at most once")
        over = [number for number in numbers if self._playing[number].env.stop_reason is not None]
        if over:
            raise Refusal(Reason.GAME_OVER, f"game {over[0]} is over; leave it out", games=over[:100])
        return [self._playing[number] for number in numbers]


def _rewards_of(games: list[NewGame]) -> list[float]:
    return [game.rewards.next() for game in games]


def _observed(games: list[NewGame], rewards: list[float] | list[None]) -> str:
    seen = [game.observed(is_new=reward is None) for game, reward in zip(games, rewards, strict=True)]
    dones = [game.env.stop_reason is not None for game in games]
    return _encoded("observations", {"observations": seen, "rewards": rewards, "dones": dones})
