"""Micro-batches as tensors: what is trained on, drawn as a picture."""

import pytest

torch = pytest.importorskip("torch")

from training_fixtures import compact

from wordle_rl.data.dataset import Example, encode_traces
from wordle_rl.train.batch import Batch


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


def test_distributions_are_filled_up() -> None:
    rows = [Example([1, 2, 3], [0, 1, 1], soft_targets=[[(2, 0.5), (4, 0.5)], [(3, 1.0)]])]
    batch = Batch.of(rows, [1.0], pad_id=0)
    assert batch.soft_ids.tolist() == [[2, 4], [3, 0]]
    assert batch.soft_probs.tolist() == [[0.5, 0.5], [1, 0]]
    assert batch.advantages is None


def test_taught_tokens_of_games_are_trained_on_and_no_others(traces, codec) -> None:
    examples = encode_traces(traces, compact(), codec, 1000).examples[:40]
    batch = Batch.of(examples, [1.0] * len(examples), codec.pad_id)
    for number, example in enumerate(examples):
        taught = [t for t, m in zip(example.token_ids, example.loss_mask, strict=True) if m]
        assert batch.targets[batch.rows == number].tolist() == taught
        length = len(example.token_ids)
        assert batch.input_ids[number, :length].tolist() == example.token_ids
        assert (batch.input_ids[number, length:] == codec.pad_id).all()
