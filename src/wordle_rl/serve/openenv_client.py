"""Types on the wire: action, observation, state, and options of a reset."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.types import Action, Observation, State
from pydantic import BaseModel, ConfigDict, Field

from wordle_rl.prompt import Style

ActionT = TypeVar("ActionT", bound=Action)
ObservationT = TypeVar("ObservationT", bound=Observation)
StateT = TypeVar("StateT", bound=State)

# A bound on what a client may send; the word list decides which words may be played.
_Word = Annotated[str, Field(min_length=1, max_length=32)]


class WordleAction(Action):
    """One reply of the policy."""

    message: str = Field(description="The whole reply, thinking and guess tags included")


class WordleObservation(Observation):
    """Messages and facts after a reset or a turn. It never holds the secret before the game is over."""

    messages: list[dict[str, str]] = Field(
        default_factory=list,
        description="New chat messages for the policy (role, content): the whole prompt after a reset, and after each "
        "turn if the shape is `state`; else the feedback on the last reply; none once the game is over",
    )
    turns_left: int = Field(ge=0, description="Guesses left")
    outcome: str | None = Field(
        default=None, description="The rules' outcome of the last reply: scored, malformed, wrong_length, unlisted, …"
    )
    guess: str | None = Field(default=None, description="Guess read from the last reply, if there was one")
    marks: str | None = Field(default=None, description="Marks of that guess, one of G, Y, X per letter, if scored")
    stop_reason: str | None = Field(default=None, description="Reason why the game ended: solved or out_of_turns")
    secret: str | None = Field(default=None, description="The secret, once the game is over and the server shows it")


class WordleState(State):
    """The game of the session as its player knows it."""

    max_turns: int = Field(default=0, ge=0, description="Guesses of a game")
    turns_left: int = Field(default=0, ge=0, description="Guesses that may still be made")
    stop_reason: str | None = Field(default=None, description="Reason why the game ended; null while it runs")
    board: list[dict[str, Any]] = Field(
        default_factory=list, description="Turns so far, prefix guesses included: guess, marks, outcome"
    )
    task_id: str | None = Field(
        default=None, description="Opaque id of the task, once the game is over and the server shows its secret"
    )
    words: str | None = Field(default=None, description="Name of the word list")
    hard_mode: bool = Field(default=False, description="Every revealed hint must be used")
    style: str | None = Field(default=None, description="Wording of the prompts")
    thinking: str | None = Field(default=None, description="Thinking in replies: off, optional or required")
    reward: str | None = Field(default=None, description="Reward preset; `custom` for weights of the server's own")


class ResetOptions(BaseModel):
    """Options of a reset; anything else is refused.

    The same options with a seed, or with `split` and `index`, give the same secret and the same prefix guesses in every
    session, even after a restart.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    seed: int | None = Field(default=None, ge=0, le=2**63 - 1, description="Determines what is not named")
    episode_id: str | None = Field(default=None, min_length=1, max_length=255, description="Name of the episode")
    split: Literal["train", "val", "test"] | None = Field(
        default=None, description="Part of the answers the secret is from"
    )
    index: int | None = Field(default=None, ge=0, description="Number of the task in its split")
    words: str | None = Field(default=None, max_length=255, description="Name of a word list that the server offers")
    hard_mode: bool | None = Field(default=None, description="Every revealed hint must be used")
    style: Annotated[Style, Field(strict=False)] | None = Field(default=None, description="Wording of the prompts")
    reward: str | None = Field(default=None, max_length=64, description="Name of a reward preset")
    given: list[_Word] | None = Field(
        default=None,
        max_length=20,
        description="Guesses already on the board when play begins; the secret is drawn from the other words",
    )
    max_given: int = Field(default=0, ge=0, le=20, description="0 to this many random guesses already on the board")


class MessageClient(EnvClient[ActionT, ObservationT, StateT]):
    """A session whose actions are messages; for more options see openenv's `EnvClient`."""

    types: tuple[type[ObservationT], type[StateT]]
    """Of what it reads."""

    def __init__(self, base_url: str | None = None, *, token: str | None = None, **options: Any) -> None:
        headers = dict(options.pop("headers", None) or {})
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        super().__init__(base_url, headers=headers or None, **options)

    def _step_payload(self, action: ActionT) -> dict[str, Any]:
        return {"message": action.message}  # type: ignore[attr-defined]  # of the actions of both kinds of sessions

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[ObservationT]:
        end = {"reward": payload.get("reward"), "done": payload.get("done", False)}
        observation = self.types[0].model_validate({**payload.get("observation", {}), **end})
        return StepResult(observation=observation, **end)

    def _parse_state(self, payload: dict[str, Any]) -> StateT:
        return self.types[1].model_validate(payload)


class WordleClient(MessageClient[WordleAction, WordleObservation, WordleState]):
    """A session on a server."""

    types = WordleObservation, WordleState
