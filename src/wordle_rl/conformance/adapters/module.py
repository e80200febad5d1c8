"""A target from Python: `package.module:factory`, where the factory returns an environment with `reset` and `step`.

A factory may also return a `Target` of its own, as the adapters of this folder do.
`reset(seed=…)` returns an observation or the pair (observation, info), `step(reply)` the four or five values that Gym
or Gymnasium ask for. An observation is a string, or a mapping whose strings are read.
"""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wordle_rl.conformance.target import SessionLostError, Step, Target, TargetError

_NO_TEXT = ("role", "metadata")
"""Keys of an observation whose values no policy reads."""


class ModuleTarget:
    """Environments that a factory makes, one per session.

    Args:
        name: `package.module:factory`.
        factory: Called without arguments, once per session.
    """

    def __init__(self, name: str, factory: Callable[[], Any]) -> None:
        self._name, self._factory = name, factory

    @property
    def name(self) -> str:
        """As it was asked for."""
        return self._name

    def open(self, seed: int) -> ModuleSession:
        """Make an environment and reset it."""
        try:
            return ModuleSession(self._factory(), seed)
        except Exception as error:  # an environment that opens no game is no target, whatever it raises
            raise TargetError(f"{self._name} opens no game: {type(error).__name__}: {error}") from error

    def surroundings(self) -> str:
        """Nothing: a module sends nothing outside its sessions."""
        return ""


class ModuleSession:
    """One environment between reset and close."""

    def __init__(self, env: Any, seed: int) -> None:
        self._env = env
        parameters = inspect.signature(env.reset).parameters
        takes_seed = "seed" in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())
        if not takes_seed and hasattr(env, "seed"):
            env.seed(seed)
        answer = env.reset(seed=seed) if takes_seed else env.reset()
        observation, info = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, {})
        self._opening = Step(text_of(observation), raw=as_sent([observation, info]))

    @property
    def opening(self) -> Step:
        """The observation that `reset` returned."""
        return self._opening

    def send(self, reply: str) -> Step:
        """Step; an exception is a refusal, since it is how a module says no."""
        try:
            answer = self._env.step(reply)
        except Exception as error:  # whatever it raises is its way of saying no
            return Step(str(error), raw=f"{type(error).__name__}: {error}", refused=True)
        if not isinstance(answer, Sequence) or len(answer) not in (4, 5):
            raise SessionLostError(f"step returned {type(answer).__name__}, not four or five values")
        observation, reward, *ends, info = answer
        return Step(text_of(observation), reward, any(map(bool, ends)), as_sent([observation, reward, *ends, info]))

    def beside(self) -> str:
        """The value of `state`, where the environment has one."""
        state = getattr(self._env, "state", None)
        return "" if state is None else as_sent(state() if callable(state) else state)

    def close(self) -> None:
        """Close the environment, if it can be closed."""
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
    if isinstance(observation, Mapping):
        return "\n".join(filter(None, (text_of(value) for key, value in observation.items() if key not in _NO_TEXT)))
    if isinstance(observation, Sequence):
        return "\n".join(filter(None, map(text_of, observation)))
    return ""


def as_sent(value: Any) -> str:
    """A value as text in which secrets are searched; what is no JSON is written as Python writes it."""
    return json.dumps(value, default=repr, ensure_ascii=False)


def module_target(name: str) -> Target:
    """The target of `package.module:factory`.

    Raises:
        TargetError: If it cannot be imported or called.
    """
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise TargetError(f"{name!r} is no target; give an address, or package.module:factory")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise TargetError(f"{module_name} cannot be imported ({error}); is it installed here?") from None
    factory = getattr(module, attribute, None)
    if not callable(factory):
        raise TargetError(f"{module_name} has nothing callable named {attribute!r}")
    try:
        made = factory()
    except TargetError:
        raise
    except Exception as error:  # whatever a factory raises, there is nothing to examine
        raise TargetError(f"{name} makes no environment: {type(error).__name__}: {error}") from error
    if hasattr(made, "open") and hasattr(made, "surroundings"):
        own: Target = made
        return own
    if not (hasattr(made, "reset") and hasattr(made, "step")):
        raise TargetError(f"{name} returned {type(made).__name__}, which has no reset and step")
    return ModuleTarget(name, factory)
