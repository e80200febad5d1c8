"""Micro-batches as tensors: what is trained on, drawn as a picture."""

import pytest

torch = pytest.importorskip("torch")


from wordle_rl.data.dataset import Example
from wordle_rl.train.micro_batches import Batch


def test_the_picture_of_a_micro_batch() -> None:
    rows = [
        Example([1, 2, 3, 4], [0, 0, 1, 1], [0, 0, 5.0, 6.0], [0, 0, -1.0, -2.0]),
        Example([1, 7], [1, 1], [8.0, 9.0], [-3.0, -4.0]),
    ]
    batch = Batch.of(rows, [0.5, 0.25], pad_id=0)
    assert batch.input_ids.tolist() == [[1, 2, 3, 4], [1, 7, 0, 0]]
    picture = ["".join("#" if mark else "." for mark in row) for row in batch.trained.tolist()]
    assert picture == [".##", "#.."], "nothing predicts the first token of a row"
    assert batch.targets.tolist() == [3, 4, 7]
    assert batch.rows.tolist() == [0, 0, 1]
    assert batch.weights.tolist() == [0.5, 0.5, 0.25]
    assert batch.advantages.tolist() == [5, 6, 9]
    assert batch.sampler_logprobs.tolist() == [-1, -2, -4]
    assert (batch.num_rows, batch.soft_ids) == (2, None)
