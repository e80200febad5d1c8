"""Laws of a fall below the start: it is shown while it lasts, and ends a training that asks for that."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from contexts import context_for
from grpo_training import SETTINGS
from training_fixtures import compact, make_run, rows, small_model, weights_of

from wordle_rl.rl.grpo.checkpoint_selection import BestWeights
from wordle_rl.rl.grpo.train import train_grpo
from wordle_rl.rl.grpo.validation import Validated, Validation
from wordle_rl.rl.grpo.weight_store import TorchWeights
from wordle_rl.rl.setup import GameSetup
from wordle_rl.runs import read_object
from wordle_rl.solver import Solver


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
        controls = []
        for step in range(3):
            state = SimpleNamespace(global_step=step, max_steps=9)
            controls.append(SimpleNamespace(should_training_stop=False))
            best.on_train_begin(None, state, None) if step == 0 else best.on_step_begin(
                SimpleNamespace(device=torch.device("cpu")), state, controls[-1]
            )
        written = rows(run.directory / "metrics.jsonl")
        return said, [control.should_training_stop for control in controls], [row["p_below_start"] for row in written]

    return make


def test_a_fall_below_the_start_is_told_while_it_lasts(falling) -> None:
    said, stopped, probabilities = falling()
    assert said == ["", "greedy play is below its start (p = 0.004)", ""]
    assert stopped == [False] * 3
    assert probabilities == [1.0, pytest.approx(1 / 2**8), 1.0]


def test_a_fall_below_the_start_ends_the_training_if_asked_to(falling) -> None:
    assert falling(stop_below_start=True)[1] == [False, True, False]


def test_a_training_that_ended_early_gives_back_its_best_weights(
    tokenizer, codec, sixty, split, tmp_path, monkeypatch
) -> None:
    played = iter([costing(3.0, won=WON), costing(9.0, won=LOST)])
    monkeypatch.setattr(Validation, "__call__", lambda *_: next(played, costing(9.0, won=LOST)))
    model = small_model(tokenizer)
    start = {name: weight.clone() for name, weight in weights_of(model).items()}
    context = context_for(sixty, compact(max_turns=3), Solver(sixty, use_cache=False))
    settings = SETTINGS.model_copy(update={"steps": 5, "validate_every_steps": 2, "stop_below_start": True})
    train_grpo(model, codec, GameSetup(context, split.train, split.val), settings, make_run(tmp_path, sixty))
    steps = [row["step"] for row in rows(tmp_path / "metrics.jsonl") if row["stage"] == "grpo"]
    assert steps[-1] < 5
    assert all(torch.equal(start[name], weight) for name, weight in weights_of(model).items())
    assert read_object(tmp_path / "grpo" / "selected.json")["step"] == 0
