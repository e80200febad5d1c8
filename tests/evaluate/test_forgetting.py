"""Laws of what a model still knows of English: a text's bits and a question's answer are those of its probabilities."""

import math
from types import SimpleNamespace

import pytest
import torch

from wordle_rl.evaluate.forgetting import QUESTIONS, english_of, measure_english


class Model:
    """Likes the next token of every row that holds one of these endings, and no token of other rows."""

    device, training = torch.device("cpu"), True

    def __init__(self, codec, liked: list[str]) -> None:
        self._codec, self._liked = codec, liked

    def eval(self) -> None:
        self.train(False)

    def train(self, mode: bool = True) -> None:
        self.training = mode

    def __call__(self, input_ids, attention_mask):
        logits = torch.zeros(*input_ids.shape, len(self._codec.tokenizer))
        for row, ids in enumerate(input_ids.tolist()):
            length = int(attention_mask[row].sum())
            assert attention_mask[row, :length].all(), "padding is on the right"
            if any(f" {ending}." in self._codec.tokenizer.decode(ids[:length]) for ending in self._liked):
                logits[row, torch.arange(length - 1), torch.tensor(ids[1:length])] = 9.0
        return SimpleNamespace(logits=logits)


RIGHT = [right for _, right, _ in QUESTIONS]
WRONG = [wrong[2] for _, _, wrong in QUESTIONS]


@pytest.mark.parametrize(("liked", "num_right"), [(RIGHT, 20), (WRONG, 0), (RIGHT[:7] + WRONG[7:], 7)])
def test_the_likeliest_ending_is_the_answer(codec, liked: list[str], num_right: int) -> None:
    assert measure_english(Model(codec, liked), codec).num_right == num_right


def test_a_model_that_knows_nothing_needs_the_bits_of_its_vocabulary_and_goes_on_training(codec) -> None:
    model = Model(codec, [])
    assert measure_english(model, codec).bits_per_token == pytest.approx(math.log2(len(codec.tokenizer)))
    assert model.training
    assert english_of(SimpleNamespace(model=model, codec=codec)) is None, "so the embedded model is not asked"
