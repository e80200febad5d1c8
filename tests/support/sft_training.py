"""SFT in miniature."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from training_fixtures import compact, fast, training_of

from wordle_rl.config.stages import SFTSettings
from wordle_rl.train.example import Example, encode_traces
from wordle_rl.train.learner import TorchLearner
from wordle_rl.train.sft import train_sft

SETTINGS = SFTSettings(batch_size=16, epochs=3, optimizer=fast(), logging_steps=1)


@pytest.fixture(scope="session")
def examples(plain_traces, codec) -> list[Example]:
    return encode_traces(plain_traces, compact(), codec, 1000).examples


def fine_tune(
    model, codec, examples, settings, run, *, seed: int = 0, validation=(), fitting: dict | None = None, **options
) -> Path:
    """`train_sft` with the learner that the pipeline makes; `fitting` are settings of [model]."""
    learner = TorchLearner(model, codec, **{"precision": "fp32"} | (fitting or {}), seed=seed)
    training = training_of(learner, run, "sft", seed=seed, **options)
    return train_sft(training, examples, settings, validation=validation)


def loss_of(model, examples: list[Example]) -> float:
    """Mean cross-entropy over the learnt tokens, one game at a time and without any trainer."""
    total, count = 0.0, 0
    with torch.no_grad():
        for example in examples:
            ids = torch.tensor([example.token_ids])
            logprobs = model(input_ids=ids).logits[0, :-1].log_softmax(-1)
            for place in range(1, ids.shape[1]):
                if example.loss_mask[place]:
                    total -= float(logprobs[place - 1, ids[0, place]])
                    count += 1
    return total / count
