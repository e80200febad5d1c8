"""An environment as the checks see it: it opens sessions, takes text and answers. What is behind it is unknown."""

from __future__ import annotations

import inspect
import json
import math
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


class TargetError(ValueError):
    """A target that cannot be examined; the message names it and the fix in one line."""


class SessionLostError(Exception):
    """A session that ended without an answer: connection dropped, no reply in time, crash outside the protocol."""


@dataclass(frozen=True)
class Step:
    """One answer of an environment."""

    text: str  # the new text of the observation, as a policy reads it; of a refusal its message
    reward: object = None  # as sent, whatever it is
    done: bool = False  # the game is over
    raw: str = ""  # everything that was sent, in which secrets are searched
    refused: bool = False  # an error came instead of an observation

    @property
    def earned(self) -> float:
        """The reward as a number; 0 if none came or it is not finite."""
        is_number = isinstance(self.reward, int | float) and not isinstance(self.reward, bool)
        return float(self.reward) if is_number and math.isfinite(self.reward) else 0.0  # type: ignore[arg-type]


class Session:
    """One game in progress."""

    opening: Step  # the first observation

    def send(self, reply: str) -> Step:
        """Play one reply; without an answer, raise `SessionLostError`."""
        raise NotImplementedError

    def beside(self) -> str:
        """Everything to be had beside the observations, such as the state."""
        return ""

    def close(self) -> None:
        """End the session, whatever state its game is in."""


class Target:
    """An environment."""

    name: str  # in reports

    def open(self, seed: int) -> Session:
        """Start the game of a seed; if no session can be had, raise `TargetError`."""
        raise NotImplementedError


class ModuleTarget(Target):
    """Environments that a factory makes, one per session, with `reset` and `step` in the form of Gym or Gymnasium."""

    def __init__(self, name: str, factory: Callable[[], Any]) -> None:
        self.name, self._factory = name, factory

    def open(self, seed: int) -> Session:
        """Make an environment and reset it."""
        try:
            return _ModuleSession(self._factory(), seed)
        except Exception as error:  # an environment that opens no game is no target, whatever it raises
            raise TargetError(f"{self.name} opens no game: {type(error).__name__}: {error}") from error


class _ModuleSession(Session):
    def __init__(self, env: Any, seed: int) -> None:
        self._env = env
        parameters = inspect.signature(env.reset).parameters
        takes_seed = "seed" in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())
        if not takes_seed and hasattr(env, "seed"):
            env.seed(seed)
        answer = env.reset(seed=seed) if takes_seed else env.reset()
        observation, info = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, {})
        self.opening = Step(text_of(observation), raw=as_sent([observation, info]))

    def send(self, reply: str) -> Step:
        try:
            answer = self._env.step(reply)
        except Exception as error:  # whatever it raises is its way of saying no
            return Step(str(error), raw=f"{type(error).__name__}: {error}", refused=True)
        if not isinstance(answer, Sequence) or len(answer) not in (4, 5):
            raise SessionLostError(f"step returned {type(answer).__name__}, not four or five values")
        observation, reward, *ends, info = answer
        return Step(text_of(observation), reward, any(map(bool, ends)), as_sent([observation, reward, *ends, info]))

    def beside(self) -> str:
        state = getattr(self._env, "state", None)
        return "" if state is None else as_sent(state() if callable(state) else state)

    def close(self) -> None:
        if hasattr(self._env, "close"):
            self._env.close()


def text_of(observation: Any) -> str:
    """The text of an observation: itself, or the strings in it, one a line.

    Examples:
        >>> text_of({"messages": [{"role": "user", "content": "crane GYXXX"}], "turns_left": 5})
        'crane GYXXX'
    """
    if isinstance(observation, str):
        return observation
    if isinstance(observation, Mapping):  # no policy reads roles and metadata
        return text_of([value for key, value in observation.items() if key not in ("role", "metadata")])
    return "\n".join(filter(None, map(text_of, observation))) if isinstance(observation, Sequence) else ""


def as_sent(value: Any) -> str:
    """A value as text in which secrets are searched; what is no JSON is written as Python writes it."""
    return json.dumps(value, default=repr, ensure_ascii=False)


def module_target(name: str) -> Target:
    """The target of `package.module:factory`; the factory returns an environment, or a `Target` of its own."""
    try:
        factory = pkgutil.resolve_name(name)
        made = factory()
    except TargetError:
        raise
    except Exception as error:  # whatever it raises, there is nothing to examine
        why = f"{type(error).__name__}: {error}"
        raise TargetError(f"{name} makes no environment ({why}); give an address, or package.module:factory") from error
    if isinstance(made, Target):
        return made
    if not (hasattr(made, "reset") and hasattr(made, "step")):
        raise TargetError(f"{name} returned {type(made).__name__}, which has no reset and step")
    return ModuleTarget(name, factory)
