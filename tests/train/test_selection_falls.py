"""Laws of a fall below the start: it is shown while it lasts, and ends a training that asks for that."""

import pytest

torch = pytest.importorskip("torch")

from grpo_training import SETTINGS, same, train_fixture, update  # noqa: F401  # a fixture
from training_fixtures import make_run, rows

from wordle_rl.train.checkpoint_selection import BestWeights, Validated
from wordle_rl.train.learner import TorchWeights


def costing(greedy: float, won: tuple[bool, ...]) -> Validated:
    return Validated({"greedy_cost": greedy, "cost": 9.0, "validation_cost": 1.0}, won)


WON, LOST = (True,) * 9, (True, *(False,) * 8)
"""Greedy play of nine secrets: all won, and eight of them lost, which chance does in 1 of 256 runs."""


@pytest.fixture
def falling(sixty, tmp_path):
    """A training whose play falls at its second validation and is back at its third."""

    def make(**options):
        model, said = torch.nn.Linear(2, 2, bias=False), []
        played = iter([WON, LOST, WON])
        run = make_run(tmp_path / "run", sixty)
        best = BestWeights(
            TorchWeights(model),
            lambda *_: costing(3.0, won=next(played)),
            1,
            run,
            tmp_path / "best",
            remark=said.append,
            **options,
        )
        best.begin()
        stopped = [best.after(step) for step in (1, 2)]
        written = rows(run.directory / "metrics.jsonl")
        return said, stopped, [row["p_below_start"] for row in written]

    return make


def test_a_fall_below_the_start_is_told_while_it_lasts(falling) -> None:
    said, _, probabilities = falling()
    assert [bool(text) for text in said] == [False, True, False]
    assert "0.004" in said[1]
    assert probabilities == [1.0, pytest.approx(1 / 2**8), 1.0]
