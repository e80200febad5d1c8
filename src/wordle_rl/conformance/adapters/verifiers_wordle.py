"""The wordle task set of verifiers 0.4 as a target: `wordle_rl.conformance.adapters.verifiers_wordle:target`.

There the environment drives: its `run` asks an agent for replies. Here the agent hands each question out and waits for
the reply, so that `run` is played as it stands, without a model and without an event loop. The reward comes once, at
the end.
"""

from __future__ import annotations

import importlib
from collections.abc import Coroutine, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

from wordle_rl.conformance.adapters.module import as_sent
from wordle_rl.conformance.target import SessionLostError, Step, TargetError

_GAME = "Wordle-v0"


@dataclass
class Question:
    """An observation that waits for its reply."""

    text: str

    def __await__(self) -> Generator[str, str, str]:
        """Hand the observation to whoever drives the coroutine, and take the reply."""
        return (yield self.text)


@dataclass(frozen=True)
class Segment:
    """Result of an agent's turn."""

    last_reply: str
    terminated: bool = False


@dataclass
class Trace:
    """Record in which a run writes its reward."""

    info: dict[str, Any] = field(default_factory=dict)
    rewards: dict[str, float] = field(default_factory=dict)

    def record_reward(self, name: str, value: float, weight: float) -> None:
        """Take a reward and its weight."""
        self.rewards[name] = value * weight


@dataclass
class Interaction:
    """The exchange between a run and its agent; also the agent that opens it, and the one among several agents."""

    trace: Trace = field(default_factory=Trace)

    @property
    def player(self) -> Interaction:
        """The only agent."""
        return self

    def interaction(self, _task: Any) -> Interaction:
        """Begin the exchange."""
        return self

    async def __aenter__(self) -> Interaction:
        """Begin."""
        return self

    async def __aexit__(self, *_error: object) -> None:
        """End."""

    async def turn(self, text: str = "") -> Segment:
        """One turn of the agent."""
        return Segment(await Question(text))


class VerifiersTarget:
    """Runs of a task set.

    Args:
        name: In reports.
        run: `run(task, agents)`, the environment's own coroutine.
        tasks: Tasks in order; task n has seed n.
    """

    def __init__(self, name: str, run: Any, tasks: Iterator[Any]) -> None:
        self._name, self._run, self._tasks = name, run, tasks
        self._drawn: list[Any] = []

    @property
    def name(self) -> str:
        """Name of the task set."""
        return self._name

    def open(self, seed: int) -> VerifiersSession:
        """Start a run of the task with this number."""
        while len(self._drawn) <= seed:
            self._drawn.append(next(self._tasks))
        agent = Interaction()
        return VerifiersSession(self._run(self._drawn[seed], agent), agent.trace, str(self._drawn[seed].data.prompt))

    def surroundings(self) -> str:
        """Nothing."""
        return ""


class VerifiersSession:
    """One run, driven by hand."""

    def __init__(self, run: Coroutine[str, str, None], trace: Trace, prompt: str) -> None:
        self._run, self._trace = run, trace
        self._is_over = False
        first = run.send(None)  # type: ignore[arg-type]  # a coroutine is started with None
        text = "\n".join(filter(None, (prompt, first)))
        self._opening = Step(text, raw=text)

    @property
    def opening(self) -> Step:
        """The prompt of the task."""
        return self._opening

    def send(self, reply: str) -> Step:
        """Reply to the question asked last."""
        if self._is_over:
            return Step("the run is over", raw="the run is over", refused=True)
        try:
            text = self._run.send(reply)
        except StopIteration:
            self._is_over = True
            ending = str(self._trace.info.get("game_outcome", ""))
            return Step(ending, sum(self._trace.rewards.values()), True, as_sent([ending, self._trace.rewards]))
        except Exception as error:  # whatever breaks the run breaks this game, and no other
            self._is_over = True
            raise SessionLostError(f"{type(error).__name__}: {error}") from error
        return Step(text, raw=text)

    def beside(self) -> str:
        """Nothing before the end: a run keeps its state to itself."""
        return ""

    def close(self) -> None:
        """Give the run up."""
        self._run.close()


def target() -> VerifiersTarget:
    """The target.

    Raises:
        TargetError: If verifiers or TextArena is not installed here.
    """
    try:
        textarena = importlib.import_module("verifiers.v1.tasksets.textarena.taskset")
    except ImportError as error:
        raise TargetError(f"verifiers' wordle cannot be imported ({error}); install verifiers[ta]") from None
    tasks = textarena.TextArenaTaskset(textarena.TextArenaConfig(game=_GAME)).load()
    return VerifiersTarget("verifiers wordle", lambda task, agent: textarena.TextArenaEnv.run(None, task, agent), tasks)
