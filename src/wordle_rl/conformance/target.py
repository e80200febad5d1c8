"""An environment as the checks see it: it opens sessions, takes text and answers. What is behind it is unknown."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol


class TargetError(ValueError):
    """A target that cannot be examined; the message names it and the fix in one line."""


class SessionLostError(Exception):
    """A session that ended without an answer: connection dropped, no reply in time, crash outside the protocol."""


@dataclass(frozen=True)
class Step:
    """One answer of an environment.

    Attributes:
        text: The new text of the observation, as a policy reads it.
        reward: As sent, whatever it is; None if none came.
        done: True if the game is over.
        raw: Everything that was sent, in which secrets are searched.
        refused: True if an error came instead of an observation; `text` then holds its message.
    """

    text: str
    reward: object = None
    done: bool = False
    raw: str = ""
    refused: bool = False

    @property
    def earned(self) -> float:
        """The reward as a number; 0 if none came or it is not finite."""
        if isinstance(self.reward, bool) or not isinstance(self.reward, int | float):
            return 0.0
        return float(self.reward) if math.isfinite(self.reward) else 0.0


class Session(Protocol):
    """One game in progress."""

    @property
    def opening(self) -> Step:
        """The first observation, before any reply."""
        ...

    def send(self, reply: str) -> Step:
        """Play one reply.

        Raises:
            SessionLostError: If there is no answer.
        """
        ...

    def beside(self) -> str:
        """Everything to be had beside the observations, such as the state; '' if there is nothing."""
        ...

    def close(self) -> None:
        """End the session, whatever state its game is in."""
        ...


class Target(Protocol):
    """An environment."""

    @property
    def name(self) -> str:
        """Name in reports."""
        ...

    def open(self, seed: int) -> Session:
        """Start a game.

        Args:
            seed: Seed, or index of the task where the target was made for tasks.

        Raises:
            TargetError: If no session can be had.
        """
        ...

    def surroundings(self) -> str:
        """Everything it sends outside sessions, such as metadata and task lists; '' if there is nothing."""
        ...
