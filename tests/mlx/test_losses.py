"""Laws of the losses: the value and gradient of `train.loss` for any log-probabilities."""

import pytest

pytest.importorskip("mlx")

import mlx.core as mx
import numpy as np
import torch

import wordle_rl.mlx.losses as ours
import wordle_rl.train.loss as theirs

COUNT = 40


@pytest.fixture(scope="module")
def drawn() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "logprobs": -rng.exponential(1.0, COUNT).astype(np.float32),
        "old": -rng.exponential(1.0, COUNT).astype(np.float32),
        "reference": -rng.exponential(1.0, COUNT).astype(np.float32),
        "advantages": rng.normal(size=COUNT).astype(np.float32),
        "weights": rng.uniform(size=COUNT).astype(np.float32),
    }


def agree(of_mlx, of_torch, at: np.ndarray) -> None:
    """Value and gradient of the same function in both libraries."""
    value, gradient = mx.value_and_grad(of_mlx)(mx.array(at))
    given = torch.tensor(at, requires_grad=True)
    wanted = of_torch(given)
    wanted.backward()
    assert value.item() == pytest.approx(float(wanted.detach()), abs=1e-4)
    assert np.array(gradient) == pytest.approx(given.grad.numpy(), abs=1e-4)
    assert np.abs(np.array(gradient)).max() > 1e-3


@pytest.mark.parametrize("beta", [0.0, 0.2])
def test_the_policy_loss_is_torch_s_beyond_the_clip_range_too(drawn, beta) -> None:
    def arguments(array):
        rest = (array(drawn[name]) for name in ("old", "advantages", "weights"))
        return (*rest,), {"beta": beta, "reference_logprobs": array(drawn["reference"])}

    (mlx_rest, mlx_named), (torch_rest, torch_named) = arguments(mx.array), arguments(torch.tensor)
    agree(
        lambda x: ours.policy_loss(x, *mlx_rest, **mlx_named)[0],
        lambda x: theirs.policy_loss(x, *torch_rest, **torch_named)[0],
        drawn["logprobs"],
    )
    found = ours.policy_loss(mx.array(drawn["logprobs"]), *mlx_rest, **mlx_named)[1]
    wanted = theirs.policy_loss(torch.tensor(drawn["logprobs"]), *torch_rest, **torch_named)[1]
    assert {n: v.item() for n, v in found.items()} == pytest.approx({n: v.item() for n, v in wanted.items()}, rel=1e-5)
    assert found["clip_ratio/low_mean"].item() * found["clip_ratio/high_mean"].item() > 0


def test_the_preference_loss_is_torch_s(drawn) -> None:
    agree(
        lambda x: ours.preference_loss(x.reshape(-1, 2), beta=0.3).sum(),
        lambda x: theirs.preference_loss(x.view(-1, 2), beta=0.3).sum(),
        drawn["logprobs"] * 5,
    )
