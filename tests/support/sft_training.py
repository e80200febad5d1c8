"""SFT in miniature."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from training_fixtures import compact, fast

from wordle_rl.config import SFTTraining
from wordle_rl.data.dataset import Example, encode_traces
from wordle_rl.train.learner import TorchLearner
from wordle_rl.train.sft import train_sft

SETTINGS = SFTTraining(batch_size=16, epochs=3, optimizer=fast(), precision="fp32", logging_steps=1)


@pytest.fixture(scope="session")
def examples(plain_traces, codec) -> list[Example]:
    return encode_traces(plain_traces, compact(), codec, 1000).examples


def fine_tune(model, codec, examples, settings, run, *, seed: int = 0, **options) -> Path:
    """`train_sft` with the learner that the pipeline makes of these settings."""
    learner = TorchLearner(
        model,
        codec,
        precision=settings.precision,
        gradient_checkpointing=settings.gradient_checkpointing,
        seed=seed,
    )
    return train_sft(learner, examples, settings, run, seed=seed, **options)


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
