"""Laws of what a model still knows of English: a text's bits and a question's answer are those of its probabilities."""

import math
from types import SimpleNamespace

import pytest
import torch

from wordle_rl.evaluate.forgetting import QUESTIONS, TEXT, english_of, measure_english


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
        assert not self.training, "without dropout"
        logits = torch.zeros(*input_ids.shape, len(self._codec.tokenizer))
        for row, ids in enumerate(input_ids.tolist()):
            length = int(attention_mask[row].sum())
            assert attention_mask[row, :length].all(), "padding is on the right"
            if any(f" {ending}." in self._codec.tokenizer.decode(ids[:length]) for ending in self._liked):
                logits[row, torch.arange(length - 1), torch.tensor(ids[1:length])] = 9.0
        return SimpleNamespace(logits=logits)


class Words:
    """A codec whose tokens are words, with the full stop behind them: most endings are one token."""

    def __init__(self) -> None:
        sentences = [f"{start} {ending}." for start, right, wrong in QUESTIONS for ending in (right, *wrong)]
        self._words = sorted({word for text in (TEXT, *sentences) for word in text.split(" ")})
        self.tokenizer = self

    def __len__(self) -> int:
        return len(self._words)

    def encode(self, text: str) -> list[int]:
        return [self._words.index(word) for word in text.split(" ")]

    def decode(self, ids: list[int]) -> str:
        return " ".join(self._words[number] for number in ids)


RIGHT = [right for _, right, _ in QUESTIONS]
WRONG = [wrong[2] for _, _, wrong in QUESTIONS]


@pytest.mark.parametrize(("liked", "num_right"), [(RIGHT, 20), (WRONG, 0), (RIGHT[:7] + WRONG[7:], 7)])
def test_the_likeliest_ending_is_the_answer(codec, liked: list[str], num_right: int) -> None:
    for each in (codec, Words()):
        assert measure_english(Model(each, liked), each).num_right == num_right


def test_a_model_that_knows_nothing_needs_the_bits_of_its_vocabulary_and_goes_on_training(codec) -> None:
    model = Model(codec, [])
    assert measure_english(model, codec).bits_per_token == pytest.approx(math.log2(len(codec.tokenizer)))
    assert model.training
    assert english_of(SimpleNamespace(model=model, codec=codec)) is None, "so the embedded model is not asked"
