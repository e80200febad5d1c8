"""Laws of the grouped Muon: torch's own update, whatever the shapes; singular values all near one."""

import copy

import pytest
import torch
from torch import nn

from wordle_rl.train.muon import GroupedMuon, orthogonalised

COEFFICIENTS = (3.4445, -4.775, 2.0315)


def network() -> nn.ModuleList:
    torch.manual_seed(0)
    shapes = [(8, 12), (12, 8), (8, 12), (8, 8)]
    return nn.ModuleList(nn.Linear(columns, rows, bias=False) for rows, columns in shapes)


def take_steps(model: nn.ModuleList, optimizer: torch.optim.Optimizer, count: int) -> None:
    generator = torch.Generator().manual_seed(1)
    for _ in range(count):
        for matrix in model.parameters():
            matrix.grad = torch.randn(matrix.shape, generator=generator)
        optimizer.step()


@pytest.mark.parametrize("shape", [(3, 6, 10), (3, 10, 6), (2, 5, 5)])
def test_singular_values_end_near_one(shape) -> None:
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(2))
    values = torch.linalg.svdvals(orthogonalised(matrices, 5, COEFFICIENTS))
    assert values.min() > 0.3
    assert values.max() < 1.3


def test_directions_are_kept() -> None:
    matrices = torch.randn(2, 6, 10, generator=torch.Generator().manual_seed(3))
    u, _, v = torch.linalg.svd(matrices, full_matrices=False)
    found = u.mT @ orthogonalised(matrices, 5, COEFFICIENTS) @ v.mT
    assert torch.allclose(found, torch.diag_embed(found.diagonal(dim1=1, dim2=2)), atol=1e-4)


def test_only_the_direction_of_a_gradient_counts_and_none_gives_no_step() -> None:
    matrices = torch.randn(2, 6, 10, generator=torch.Generator().manual_seed(3))
    steps = [orthogonalised(scale * matrices, 5, COEFFICIENTS) for scale in (1.0, 1e-6, 1e6)]
    assert torch.allclose(steps[0], steps[1], atol=1e-4)
    assert torch.allclose(steps[0], steps[2], atol=1e-4)
    assert not orthogonalised(torch.zeros(2, 6, 10), 5, COEFFICIENTS).any()


def test_a_step_is_that_of_torch_up_to_its_bfloat16() -> None:
    mine, theirs = network(), network()
    options = {"lr": 0.02, "momentum": 0.95, "weight_decay": 0.1}
    take_steps(mine, GroupedMuon(list(mine.parameters()), dtype=torch.float32, **options), 5)
    take_steps(theirs, torch.optim.Muon(list(theirs.parameters()), **options), 5)
    start = network()
    for a, b, before in zip(mine.parameters(), theirs.parameters(), start.parameters(), strict=True):
        assert (a - b).norm() < 0.03 * (b - before).norm()


def test_a_matrix_without_gradient_stays() -> None:
    model = network()
    before = copy.deepcopy(model[0].weight)
    optimizer = GroupedMuon(list(model.parameters()), lr=0.02, dtype=torch.float32)
    model[1].weight.grad = torch.ones_like(model[1].weight)
    optimizer.step()
    assert torch.equal(model[0].weight, before)


def test_stored_state_goes_on_alike() -> None:
    model = network()
    optimizer = GroupedMuon(list(model.parameters()), lr=0.02, dtype=torch.float32)
    take_steps(model, optimizer, 2)
    twin = copy.deepcopy(model)
    restored = GroupedMuon(list(twin.parameters()), lr=0.5, dtype=torch.float32)
    restored.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    take_steps(model, optimizer, 2)
    take_steps(twin, restored, 2)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), twin.parameters(), strict=True))
