"""Laws of other projects' environments as targets, over stand-ins with their interfaces and faults."""

import itertools
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wordle_rl.conformance.target import SessionLostError, TargetError

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import conformance_peers
from conformance_peers import GymWordleTarget, VerifiersTarget

WORDS = ["crane", "slate", "geese"]


class Actions:
    def index_of(self, word: list[int]) -> int:
        found = [[ord(letter) - 96 for letter in each] for each in WORDS]
        return found.index(word) if word in found else -1


class StandIn:
    """Boards of 6 x 10; flags stand over the letters, as they do in 0.1.3, or where they belong."""

    flags_at = 0

    def __init__(self) -> None:
        self.action_space = Actions()
        self.closed = False

    def seed(self, seed: int) -> None:
        self.seeded = seed

    def reset(self):
        self.board, self.round = np.zeros((6, 10), dtype=np.int64), 0
        return self.board

    def step(self, action: int):
        if action < 0:
            raise AssertionError("Invalid word!")
        self.board[self.round][:5] = [ord(letter) - 96 for letter in WORDS[action]]
        self.board[self.round][self.flags_at : self.flags_at + 5] = [1, 2, 3, 3, 1]
        self.round += 1
        return self.board, -1.0, self.round == 6, {}

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("flags_at", [0, 5])
def test_flags_are_read_where_they_stand(flags_at: int) -> None:
    class Placed(StandIn):
        pass

    Placed.flags_at = flags_at
    session = GymWordleTarget(Placed).open(7)
    assert [session.send(word).text for word in WORDS] == [f"{word} GYXXG" for word in WORDS]
    assert session.send("crane").earned == -1.0


@pytest.mark.parametrize("reply", ["", "zzzzz", "CRANE", "cran", "cranes", "🟩🟩🟩🟩🟩", "é" * 5])
def test_what_has_no_number_is_refused(reply: str) -> None:
    step = GymWordleTarget(StandIn).open(0).send(reply)
    assert step.refused
    assert step.text == "Invalid word!"


@pytest.mark.parametrize("make", [conformance_peers.gym_wordle, conformance_peers.verifiers_wordle])
def test_without_the_package_it_is_refused(make, monkeypatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(f"no {name}")

    monkeypatch.setattr(conformance_peers.importlib, "import_module", missing)
    with pytest.raises(TargetError):
        make()


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
    return VerifiersTarget(run, map(Task, itertools.count()))


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
