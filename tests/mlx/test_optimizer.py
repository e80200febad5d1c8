"""Laws of optimizers: torch's updates, step for step, and state that survives a checkpoint."""

import pytest

pytest.importorskip("mlx")

import mlx.core as mx
import numpy as np
import torch
from mlx.utils import tree_unflatten
from mlx_models import pair

from wordle_rl.config import OptimizerSettings
from wordle_rl.mlx.learner import ScheduledOptimizer
from wordle_rl.mlx.model import from_torch
from wordle_rl.train.optimizer import make_optimizer, set_rate

STEPS = 5


def settings(name: str, **changes: object) -> OptimizerSettings:
    muon = 0.02 if name == "muon" else None
    return OptimizerSettings(learning_rate=3e-3, muon_learning_rate=muon, warmup=0.3, **changes)


def tree(made: dict[str, torch.Tensor]):
    return tree_unflatten([(name, from_torch(gradient)) for name, gradient in made.items()])


def gradients(whole, step: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    return {name: torch.randn(p.shape, generator=generator) for name, p in whole.named_parameters()}


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_every_step_is_torch_s(tokenizer, name, schedule) -> None:
    whole, model = pair(tokenizer)
    given = settings(name, schedule=schedule)
    theirs, ours = make_optimizer(whole, given), ScheduledOptimizer(model, given, STEPS)
    for step in range(STEPS):
        made = gradients(whole, step)
        for parameter_name, parameter in whole.named_parameters():
            parameter.grad = made[parameter_name].clone()
        assert ours.rate(step) == set_rate(theirs, given, step, STEPS)
        theirs.step()
        ours.update(tree(made), step)
    weights = model.weights()
    tolerance = 1e-5 if name == "adamw" else 2e-2  # torch orthogonalises in bfloat16 where the processor has it
    for parameter_name, parameter in whole.named_parameters():
        assert np.abs(parameter.detach().numpy() - np.array(weights[parameter_name])).max() < tolerance


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_a_stored_state_continues_as_if_never_stopped(tokenizer, tmp_path, name) -> None:
    _, straight = pair(tokenizer)
    whole, stopped = pair(tokenizer)
    first = ScheduledOptimizer(straight, settings(name), STEPS)
    second = ScheduledOptimizer(stopped, settings(name), STEPS)
    for step in range(STEPS):
        made = tree(gradients(whole, step))
        if step == 3:
            second.save(tmp_path / "optimizer.safetensors")
            second = ScheduledOptimizer(stopped, settings(name), STEPS)
            second.load(tmp_path / "optimizer.safetensors")
        first.update(made, step)
        second.update(made, step)
    ours, theirs = straight.weights(), stopped.weights()
    assert all(mx.array_equal(ours[n], theirs[n]).item() for n in ours)
