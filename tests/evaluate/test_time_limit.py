"""Laws of the time limit: what was not finished is an error, and a batch that was cut short counts for nothing."""

import pytest
from scripted import planned
from scripted_evaluations import WORDS, tag

from wordle_rl.evaluate.play import TimeLimit, evaluate
from wordle_rl.policy.base import Completion, Request
from wordle_rl.prompt import Prompter
from wordle_rl.solver import Solver

SECRETS = ["crane", "trace", "grape", "abide"]


class Clock:
    """A clock that each turn of a sampler moves on."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class Slow:
    """Says `speed`, then `crane`; every call takes a minute."""

    codec = None

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def begin(self) -> None:
        pass

    def sample(self, requests: list[Request]) -> list[Completion]:
        self._clock.seconds += 60
        return [Completion(tag("crane" if request.turns else "speed")) for request in requests]


@pytest.mark.parametrize(("batch_size", "num_counted"), [(4, 0), (1, 1), (2, 0)])
def test_of_a_batch_that_is_cut_short_no_game_counts(batch_size: int, num_counted: int, monkeypatch) -> None:
    """`crane` is won in two turns; the other games are lost in six, a minute a turn. Five minutes are given."""
    clock = Clock()
    monkeypatch.setattr("wordle_rl.evaluate.play.time.monotonic", clock)
    monkeypatch.setattr(TimeLimit.__init__, "__defaults__", (clock,))
    solver, prompter = Solver(WORDS), Prompter()
    played = evaluate(
        planned(WORDS, prompter), SECRETS, WORDS, prompter, Slow(clock), batch_size=batch_size, max_minutes=5,
        solver=solver,
    )  # fmt: skip
    counted = [record.secret for record in played.records if not record.failed]
    assert counted == SECRETS[:num_counted]
    assert {record.error for record in played.records if record.failed} == {"not finished within 5 minutes"}
    assert played.figures().num_errors == len(SECRETS) - num_counted
