"""Laws of the grouped Muon: torch's own update, whatever the shapes; singular values all near one."""

import copy

import torch
from torch import nn

from wordle_rl.train.optimizer import GroupedMuon, orthogonalised

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
