"""An environment as the checks see it, and its dialect: how a guess is written, and how marks are read."""

from __future__ import annotations

import inspect
import json
import math
import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any


class TargetError(ValueError):
    """A target that cannot be examined. The message names it and the fix in one line."""


class SessionLostError(Exception):
    """A session that ended without an answer: connection lost, timeout, or a crash outside the protocol."""


@dataclass(frozen=True)
class Step:
    """One answer of an environment."""

    text: str  # new text of the observation as a policy reads it, or the message of a refusal
    reward: object = None  # as sent, of any type
    done: bool = False  # the game is over
    raw: str = ""  # everything sent, to search for secrets
    refused: bool = False  # an error came instead of an observation

    @property
    def earned(self) -> float:
        """The reward as a number; 0 if missing or not finite."""
        is_number = isinstance(self.reward, int | float) and not isinstance(self.reward, bool)
        return float(self.reward) if is_number and math.isfinite(self.reward) else 0.0  # type: ignore[arg-type]


class Session:
    """One game in progress."""

    opening: Step  # the first observation

    def send(self, reply: str) -> Step:
        """Play one reply. Raises `SessionLostError` if there is no answer."""
        raise NotImplementedError

    def beside(self) -> str:
        """Return everything shown besides observations, such as the state."""
        return ""

    def close(self) -> None:
        """End the session in any state of its game."""


class Target:
    """An environment."""

    name: str  # in reports

    def open(self, seed: int) -> Session:
        """Open a session on the game of a seed. Raises `TargetError` if that fails."""
        raise NotImplementedError


class ModuleTarget(Target):
    """Environments made by a factory, one per session, with `reset` and `step` as in Gym or Gymnasium."""

    def __init__(self, name: str, factory: Callable[[], Any]) -> None:
        self.name, self._factory = name, factory

    def open(self, seed: int) -> Session:
        """Make an environment and reset it."""
        try:
            return _ModuleSession(self._factory(), seed)
        except Exception as error:  # user code may raise anything
            raise TargetError(f"{self.name} opens no game: {type(error).__name__}: {error}") from error


class _ModuleSession(Session):
    def __init__(self, env: Any, seed: int) -> None:
        self._env = env
        parameters = inspect.signature(env.reset).parameters
        takes_seed = "seed" in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())
        answer = env.reset(seed=seed) if takes_seed else env.reset()
        observation, info = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, {})
        self.opening = Step(text_of(observation), raw=as_sent([observation, info]))

    def send(self, reply: str) -> Step:
        try:
            answer = self._env.step(reply)
        except Exception as error:  # any exception counts as a refusal
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
    """Return the text of an observation: itself, or the strings in it, one per line.

    Examples:
        >>> text_of({"messages": [{"role": "user", "content": "crane GYXXX"}], "turns_left": 5})
        'crane GYXXX'
    """
    if isinstance(observation, str):
        return observation
    if isinstance(observation, Mapping):  # roles and metadata are not shown to a policy
        return text_of([value for key, value in observation.items() if key not in ("role", "metadata")])
    return "\n".join(filter(None, map(text_of, observation))) if isinstance(observation, Sequence) else ""


def as_sent(value: Any) -> str:
    """Return a value as text in which to search for secrets."""
    return json.dumps(value, default=repr, ensure_ascii=False)


def module_target(name: str) -> Target:
    """Make a target from `package.module:factory`. The factory returns an environment, or its own `Target`."""
    try:
        factory = pkgutil.resolve_name(name)
        made = factory()
    except TargetError:
        raise
    except Exception as error:  # user code may raise anything
        why = f"{type(error).__name__}: {error}"
        raise TargetError(f"{name} makes no environment ({why}); give an address, or package.module:factory") from error
    if isinstance(made, Target):
        return made
    if not (hasattr(made, "reset") and hasattr(made, "step")):
        raise TargetError(f"{name} returned {type(made).__name__}, which has no reset and step")
    return ModuleTarget(name, factory)


_MARKS = dict(zip("GYXB-_.🟩🟨⬛⬜", "GYXXXXXGYXX", strict=True))
_SYMBOLS = {"(✓)": "G", "(-)": "Y", "(x)": "X"}
_PHRASES = {"in its place": "G", "elsewhere in the word": "Y", "no (further) copy": "X"}
_MEANING = {**_MARKS, **_SYMBOLS, **_PHRASES}


class Dialect(StrEnum):
    """How a guess is written in a reply."""

    TAGGED = "tagged"
    BRACKETED = "bracketed"
    PLAIN = "plain"

    def write(self, word: str) -> str:
        """Write a guess.

        Examples:
            >>> [each.write("crane") for each in Dialect]
            ['<guess>crane</guess>', '[crane]', 'crane']
        """
        return {"tagged": f"<guess>{word}</guess>", "bracketed": f"[{word}]", "plain": word}[self.value]


def read_marks(text: str, guess: str) -> str | None:
    """Read the marks of a guess from an observation, `G`, `Y`, `X` per letter; None if there are none.

    The letters must stand beside their marks, so marks of another guess are never read. The last match counts. Spaced
    marks that make up the whole observation belong to the guess it answers.

    Examples:
        >>> read_marks("C R A N E\\nG Y X X X", "crane")
        'GYXXX'
    """
    found = (match for form in _forms(guess) for match in form.finditer(text))
    last = max(found, key=lambda match: match.start(), default=None)
    return None if last is None else "".join(_MEANING[mark] for mark in last.groups())


@lru_cache(maxsize=8192)
def _forms(guess: str) -> list[re.Pattern[str]]:
    """Return the patterns of a guess with its marks, one group per mark."""
    mark, symbol, phrase = ("|".join(map(re.escape, known)) for known in (_MARKS, _SYMBOLS, _PHRASES))
    marks, letters = r"\s*".join([f"({mark})"] * len(guess)), [re.escape(letter) for letter in guess]
    spaced, apart = r"\s*".join(letters), r"[^a-zA-Z\n]{0,3}".join(letters)
    rule = r"[|+ :-]*---[|+ :-]*$"  # a table's rule: its dashes are no marks
    forms = (
        # G Y X X X and nothing else: the guess is in the reply that this answers
        r"\A\s*" + r"\s+".join(["([GYX])"] * len(guess)) + r"\s*\Z",
        # crane GYXXX, crane: G Y X X X, crane -> 🟩🟨⬛⬛⬛
        rf"(?<![a-zA-Z])(?i:{spaced})(?![a-zA-Z])[^a-zA-Z\n]{{1,6}}?{marks}(?!\w)",
        # A line that ends with the letters, then one of the next two lines, which ends with the marks
        rf"(?<![a-zA-Z])(?i:{apart})[^a-zA-Z\n]*\n(?:.*\n)??(?!{rule}).*?{marks}[ \t|]*$",
        "".join(f"{letter}([GYX])" for letter in letters),  # cGrYaXnXeX
        r"\s+".join(rf"{letter.upper()}({symbol})" for letter in letters),  # C(✓) R(-) A(x) N(x) E(✓)
        # crane: c: in its place, r: elsewhere in the word, …
        f"{re.escape(guess)}: " + ", ".join(f"{letter}: ({phrase})" for letter in letters),
    )
    return [re.compile(form, re.MULTILINE) for form in forms]
