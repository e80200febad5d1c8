"""Action, observation and state on the wire, with the fields of openenv's `textarena_env.models`, for its clients."""

from __future__ import annotations

from typing import Any

from openenv.core.env_server.types import Action, Observation, State
from pydantic import BaseModel, Field


class TextArenaMessage(BaseModel):
    """A message of a history. The whole history of a game is one message of the game."""

    sender_id: int
    """Number of the sender; -1 is the game."""
    content: str
    category: str
    """`MESSAGE`."""


class TextArenaAction(Action):
    """A player's message."""

    message: str
    """The guess in brackets, `[crane]`."""


class TextArenaObservation(Observation):
    """The game as its player sees it. It never holds the secret while the game runs."""

    prompt: str
    """The opening before the first turn, `Wordle-v0` afterwards."""
    messages: list[TextArenaMessage] = Field(default_factory=list)
    """The history so far."""
    current_player_id: int = 0
    """Always 0: there is one player."""
    legal_players: list[int] = Field(default_factory=list)
    """Always the one player."""
    info: dict[str, Any] = Field(default_factory=dict)
    """Always empty; the rubric of the environment has the components of the reward."""


class TextArenaState(State):
    """State of the session."""

    episode_id: str | None = None
    """Name of the game."""
    step_count: int = 0
    """Messages since the reset."""
    env_id: str
    """`Wordle-v0`."""
    num_players: int
    """Always 1."""
    max_turns: int | None = None
    """Guesses a game has."""
    turn: int = 0
    """Guesses used."""
    last_reward: float = 0.0
    """Reward of the last step."""
    last_info: dict[str, Any] = Field(default_factory=dict)
    """Reason why the game ended, once it has."""
    raw_state: dict[str, Any] = Field(default_factory=dict)
    """Board of the game; the secret only once the game is over."""
