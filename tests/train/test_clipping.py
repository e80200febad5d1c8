"""Laws of gradient clipping: the optimizer is given the gradient, shortened to the norm that the settings allow.

Plain descent at rate 1 stands in for the optimizer, so that what a step takes off the weights is the gradient itself.
"""

from itertools import pairwise
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from grpo_training import SETTINGS as GRPO
from grpo_training import Training
from training_fixtures import compact, fast, make_run, rows, small_model, weights_of

import wordle_rl.train.learner as learner_module
from wordle_rl.config import SFTTraining
from wordle_rl.data.dataset import encode_traces
from wordle_rl.train.learner import TorchLearner
from wordle_rl.train.sft import train_sft

TINY_NORM, HUGE_NORM = 1e-3, 1e6
SFT = SFTTraining(batch_size=16, micro_batch_size=8, epochs=1, precision="fp32", logging_steps=1)
STAGES = ("sft", "grpo")


class Descent:
    """Trains a model of always the same start; what each step took off its weights, as one long vector."""

    def __init__(self, plain_traces, tokenizer, codec, words, monkeypatch) -> None:
        self.examples = encode_traces(plain_traces, compact(), codec, 1000).examples[:32]
        self.tokenizer, self.codec, self.words = tokenizer, codec, words
        self.grpo = Training(tokenizer, codec, words, monkeypatch)
        sgd = lambda model, _: torch.optim.SGD(model.parameters(), lr=1.0)  # noqa: E731
        monkeypatch.setattr(learner_module, "make_optimizer", sgd)

    def __call__(self, stage: str, directory: Path, max_grad_norm: float) -> tuple[list, list[float]]:
        """The steps' updates, and the norms that were logged."""
        model = small_model(self.tokenizer)
        weights = [flat(weights_of(model))]

        def keep(*_: object) -> None:
            weights.append(flat(weights_of(model)))

        changes = {"optimizer": fast(max_grad_norm=max_grad_norm)}
        if stage == "sft":
            run = make_run(directory, self.words)
            learner = TorchLearner(model, self.codec, precision="fp32")
            train_sft(learner, self.examples, SFT.model_copy(update=changes), run, progress=keep)
        else:
            self.grpo(directory, GRPO.model_copy(update=changes), model=model, progress=keep)
        updates = [before - after for before, after in pairwise(weights)]
        return updates, [float(row["grad_norm"]) for row in rows(directory / "metrics.jsonl")]


def flat(weights: dict) -> object:
    return torch.cat([weight.double().flatten() for weight in weights.values()])


@pytest.fixture
def descend(plain_traces, tokenizer, codec, sixty, monkeypatch) -> Descent:
    return Descent(plain_traces, tokenizer, codec, sixty, monkeypatch)


@pytest.mark.parametrize("stage", STAGES)
def test_a_gradient_within_the_norm_is_left_as_it_is_and_a_longer_one_keeps_its_direction(
    stage, descend, tmp_path
) -> None:
    (whole, *_), (length, *_) = descend(stage, tmp_path / "whole", HUGE_NORM)
    assert float(whole.norm()) == pytest.approx(length, rel=1e-4)
    (short, *_), _ = descend(stage, tmp_path / "short", TINY_NORM)
    assert torch.allclose(short, whole * TINY_NORM / length, atol=1e-7)


def test_the_gradient_of_a_whole_step_is_clipped_and_not_that_of_its_parts(descend, tokenizer, tmp_path) -> None:
    """Two micro-batches of eight games, against the gradient of the sixteen worked out without any trainer."""
    descend.examples = descend.examples[:16]
    (update,), (length,) = descend("sft", tmp_path, TINY_NORM)
    model = small_model(tokenizer)
    total, count = torch.zeros(()), 0
    for example in descend.examples:
        ids, learnt = torch.tensor([example.token_ids]), torch.tensor(example.loss_mask[1:], dtype=torch.bool)
        logprobs = model(input_ids=ids).logits[0, :-1].log_softmax(-1)
        total = total - logprobs[learnt].gather(1, ids[0, 1:][learnt, None]).sum()
        count += int(learnt.sum())
    (total / count).backward()
    gradient = flat({name: weight.grad for name, weight in model.named_parameters()})
    assert length == pytest.approx(float(gradient.norm()), rel=1e-4)
    assert torch.allclose(update, gradient * TINY_NORM / gradient.norm(), atol=1e-7)
