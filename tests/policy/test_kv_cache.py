"""Laws of the key/value cache of many games; what samplers make of it is in test_samplers.py."""

import pytest

pytest.importorskip("torch")

import torch

from wordle_rl.policy.kv_cache import GameCache


def test_keeping_rows_moves_their_tokens_right_and_squeezes_holes() -> None:
    cache = GameCache(1, 3, torch.device("cpu"))
    alive = torch.tensor([[0, 1, 1, 1], [1, 0, 0, 1], [1, 1, 1, 1]])
    _, positions = cache.append_mask(alive)
    assert positions.tolist() == [[0, 0, 1, 2], [0, 0, 0, 1], [0, 1, 2, 3]]
    numbers = torch.arange(12.0).view(3, 1, 4, 1)
    cache.cache.update(numbers, -numbers, 0)
    cache.keep(torch.tensor([1, 0]))
    assert cache.mask.tolist() == [[0, 1, 1], [1, 1, 1]]
    keys = cache.cache.layers[0].keys.view(2, 3)
    assert keys[0, 1:].tolist() == [4.0, 7.0]
    assert keys[1].tolist() == [1.0, 2.0, 3.0]
    assert torch.equal(cache.cache.layers[0].values.view(2, 3), -keys)
    _, positions = cache.append_mask(torch.ones(2, 1, dtype=torch.long))
    assert positions.tolist() == [[2], [3]]
    grown, _ = cache.cache.update(torch.full((2, 1, 1, 1), 99.0), torch.zeros(2, 1, 1, 1), 0)
    assert grown.view(2, 4)[:, -1].tolist() == [99.0, 99.0]
    assert torch.equal(grown.view(2, 4)[:, :3], keys)
