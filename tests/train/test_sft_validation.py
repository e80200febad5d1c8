"""Laws of the validation loss: it is the loss on games that are not trained on, and training does not feel it."""

import random

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sft_training import SETTINGS, fine_tune, loss_of
from training_fixtures import compact, make_run, rows, same_bits, small_model, weights_of

import wordle_rl.train.logprobs as logprobs_module
from wordle_rl.data.dataset import Example, encode_traces


@pytest.fixture(scope="session")
def games(plain_traces, codec) -> tuple[list[Example], list[Example]]:
    """Some to learn, 51 in four batches; some to measure by, in one batch of 16 and one that is not full."""
    examples = encode_traces(plain_traces, compact(), codec, 1000).examples
    return examples[13:], examples[:13] + examples[:10]


def measured(directory) -> list[dict]:
    return [row for row in rows(directory / "metrics.jsonl") if "validation_loss" in row]


def forgetful(tokenizer):
    """A model with dropout, which draws from the random stream in every training step."""
    model = small_model(tokenizer)
    model.config.attention_dropout = model.model.layers[0].self_attn.attention_dropout = 0.3
    return model


def test_training_is_the_same_to_the_last_bit_with_and_without(games, tokenizer, codec, sixty, tmp_path) -> None:
    learnt, held_out = games
    ends = []
    for model, per_epoch, validation in (
        (forgetful(tokenizer), 0, ()),
        (forgetful(tokenizer), 1, held_out),
        (forgetful(tokenizer), 3, held_out),
        (small_model(tokenizer), 0, ()),
    ):
        run = make_run(tmp_path / str(len(ends)), sixty)
        torch.manual_seed(1)
        settings = SETTINGS.model_copy(update={"validations_per_epoch": per_epoch})
        fine_tune(model, codec, learnt, settings, run, validation=validation)
        assert len(measured(run.directory)) == 3 * per_epoch
        logged = [row for row in rows(run.directory / "metrics.jsonl") if "loss" in row]
        numbers = [(row["step"], row["loss"], row["grad_norm"], row["mean_token_accuracy"]) for row in logged]
        streams = torch.random.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()
        ends.append((weights_of(model), numbers, streams, model.training))
    (weights, *others), once, thrice, (without_dropout, *_) = ends
    for found, *rest in (once, thrice):
        assert same_bits(weights, found)
        assert rest == others
    assert not same_bits(weights, without_dropout)


@pytest.mark.parametrize("way", ["over distinct tokens", "row by row, the head in pieces"])
def test_the_loss_is_the_one_worked_out_by_hand(way, games, tokenizer, codec, sixty, tmp_path, monkeypatch) -> None:
    """Over batches of unequal size."""
    pieces = way != "over distinct tokens"
    if pieces:
        monkeypatch.setattr(logprobs_module, "PIECE_BYTES", 1)
    learnt, held_out = games
    model = small_model(tokenizer)
    settings = SETTINGS.model_copy(update={"epochs": 1, "gradient_checkpointing": pieces})
    fine_tune(model, codec, learnt, settings, make_run(tmp_path, sixty), validation=held_out)
    last = measured(tmp_path)[-1]
    assert last["validation_loss"] == pytest.approx(loss_of(model, held_out), rel=1e-5)
    assert last["validation_mean_token_accuracy"] == pytest.approx(accuracy_of(model, held_out), abs=1e-6)


def accuracy_of(model, examples: list[Example]) -> float:
    right, count = 0, 0
    with torch.no_grad():
        for example in examples:
            chosen = model(input_ids=torch.tensor([example.token_ids])).logits[0, :-1].argmax(-1).tolist()
            for token, said, learnt in zip(example.token_ids[1:], chosen, example.loss_mask[1:], strict=True):
                right, count = right + (learnt and token == said), count + learnt
    return right / count


@pytest.mark.parametrize(
    ("per_epoch", "epochs", "accumulation", "steps"),
    [
        (1, 1.5, 1, [4, 6]),
        (3, 1, 1, [2, 3, 4]),
        (1, 2, 3, [2, 4]),
        (0, 1, 1, []),
    ],
)
def test_it_is_taken_so_many_times_per_epoch_and_at_the_end(
    per_epoch, epochs, accumulation, steps, games, tokenizer, codec, sixty, tmp_path
) -> None:
    size = SETTINGS.batch_size
    changes = {"validations_per_epoch": per_epoch, "epochs": epochs}
    changes |= {"batch_size": size * accumulation, "micro_batch_size": size}
    learnt, held_out = games
    settings = SETTINGS.model_copy(update=changes)
    fine_tune(small_model(tokenizer), codec, learnt, settings, make_run(tmp_path, sixty), validation=held_out)
    assert [row["step"] for row in measured(tmp_path)] == steps
    assert all(set(row) >= {"stage", "seconds"} and row["stage"] == "sft" for row in measured(tmp_path))
    assert not [row for row in measured(tmp_path) if "loss" in row]
