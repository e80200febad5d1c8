"""Laws of the adapter for verifiers: its environments drive, and are played by hand."""

import itertools
from dataclasses import dataclass, field
from typing import Any

import pytest

from wordle_rl.conformance.adapters.verifiers_wordle import VerifiersTarget
from wordle_rl.conformance.target import SessionLostError


@dataclass
class Data:
    info: dict[str, int]
    prompt: str = "Find the word."


@dataclass
class Task:
    number: int
    data: Data = field(init=False)

    def __post_init__(self) -> None:
        self.data = Data({"seed": self.number})


async def run(task: Task, agents: Any) -> None:
    """Two turns, in the shape of an environment's own `run`."""
    async with agents.player.interaction(task) as interaction:
        segment = await interaction.turn()
        replies = []
        while not segment.terminated:
            replies.append(segment.last_reply)
            if segment.last_reply == "crash":
                raise RuntimeError("the engine broke")
            if len(replies) == 2:
                break
            segment = await interaction.turn(f"task {task.number}: {segment.last_reply} GYXXX")
    interaction.trace.record_reward("game_reward", 0.5, 2.0)
    interaction.trace.info["game_outcome"] = "over"


def target() -> VerifiersTarget:
    return VerifiersTarget("stand-in", run, map(Task, itertools.count()))


def test_a_run_is_played_turn_by_turn() -> None:
    session = target().open(3)
    assert session.opening.text == "Find the word."
    assert session.send("crane").text == "task 3: crane GYXXX"
    last = session.send("slate")
    assert (last.text, last.reward, last.done) == ("over", 1.0, True)
    assert session.send("again").refused


def test_runs_of_two_sessions_do_not_mix() -> None:
    subject = target()
    one, other = subject.open(1), subject.open(0)
    assert other.send("slate").text == "task 0: slate GYXXX"
    assert one.send("crane").text == "task 1: crane GYXXX"
    one.close()
    assert other.send("crane").done


def test_a_run_that_breaks_is_a_lost_session() -> None:
    session = target().open(0)
    with pytest.raises(SessionLostError, match="the engine broke"):
        session.send("crash")
    assert session.send("crane").refused
