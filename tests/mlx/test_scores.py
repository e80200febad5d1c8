"""Laws of scores: those of the whole logits, whatever is computed at a time."""

import pytest

pytest.importorskip("mlx")

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import torch
from mlx.utils import tree_flatten
from mlx_models import pair

from wordle_rl.data.dataset import Example
from wordle_rl.mlx import losses as scores_module
from wordle_rl.mlx.losses import MLXBatch, score

ROWS = [[5, 9, 3, 7, 11, 2], [4, 8, 1], [6, 2, 9, 9, 3]]
COLUMNS = [2, 3, 5, 1, 4]
MASKS = [[0, 0, 1, 1, 0, 1], [0, 0, 0], [1, 1, 0, 0, 1]]


def batch() -> MLXBatch:
    return MLXBatch.of([Example(*row) for row in zip(ROWS, MASKS, strict=True)], [1.0] * 3, 0)


def test_tokens_are_scored_under_what_stands_before_them(tokenizer) -> None:
    whole, model = pair(tokenizer)
    laid = batch()
    found = score(model, laid, temperature=0.8, entropy=True)
    assert laid.rows.tolist() == [0, 0, 0, 2, 2]
    assert (laid.places + 1 - 6 * laid.rows).tolist() == COLUMNS
    expected, entropies, right = [], [], []
    for row, column in zip(laid.rows.tolist(), COLUMNS, strict=True):
        with torch.no_grad():
            logits = whole(input_ids=torch.tensor([ROWS[row]])).logits[0, column - 1] / 0.8
        logprobs = logits.log_softmax(-1)
        expected.append(float(logprobs[ROWS[row][column]]))
        entropies.append(float(-(logprobs.exp() * logprobs).sum()))
        right.append(float(logits.argmax() == ROWS[row][column]))
    assert np.array(found.logprobs) == pytest.approx(expected, abs=1e-5)
    assert np.array(found.entropies) == pytest.approx(entropies, abs=1e-5)
    assert np.array(found.right).tolist() == right


def loss_and_gradient(model) -> tuple[float, dict[str, np.ndarray]]:
    laid = batch()
    value, gradients = nn.value_and_grad(model.network, lambda: -score(model, laid).logprobs.sum())()
    return float(value.item()), {name: np.array(array) for name, array in tree_flatten(gradients)}


def test_distributions_are_scored_by_their_expectation(tokenizer) -> None:
    whole, model = pair(tokenizer)
    soft = [[(1, 0.5), (2, 0.25), (7, 0.25)], [(3, 1.0)]]
    laid = MLXBatch.of([Example([5, 9, 3], [0, 1, 1], soft_targets=soft)], [1.0], 0)
    with torch.no_grad():
        logprobs = whole(input_ids=torch.tensor([[5, 9, 3]])).logits[0].log_softmax(-1)
    wanted = [sum(q * float(logprobs[place, token]) for token, q in target) for place, target in enumerate(soft)]
    assert score(model, laid).logprobs.tolist() == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("way", ["in pieces", "without a head of its own"])
def test_another_way_to_the_logits_gives_the_same_loss_and_gradient(tokenizer, monkeypatch, way) -> None:
    _, model = pair(tokenizer)
    value, gradients = loss_and_gradient(model)
    if way == "in pieces":
        monkeypatch.setattr(scores_module, "_PIECE", 2)
        monkeypatch.setattr(scores_module, "_SMALL", 0)
    else:
        model = type(model)(model.network, model.config, model.base, None)
    other, theirs = loss_and_gradient(model)
    assert other == pytest.approx(value, abs=1e-5)
    assert gradients.keys() == theirs.keys()
    assert all(np.abs(gradients[name] - theirs[name]).max() < 1e-5 for name in gradients)
    assert max(np.abs(gradient).max() for gradient in gradients.values()) > 1e-2


def test_the_first_token_of_a_row_has_no_score(tokenizer) -> None:
    laid = MLXBatch.of([Example([5, 9], [1, 0])], [1.0], 0)
    assert laid.targets.size == 0
    assert score(pair(tokenizer)[1], laid).logprobs.size == 0


def test_entropies_teach_nothing(tokenizer) -> None:
    _, model = pair(tokenizer)
    laid = batch()
    gradients = nn.value_and_grad(model.network, lambda: score(model, laid, entropy=True).entropies.sum())()[1]
    assert all(not mx.any(array).item() for _, array in tree_flatten(gradients))
