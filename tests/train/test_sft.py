"""Laws of supervised fine-tuning: it learns, only what is taught, and an interruption changes no bit."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from sft_training import SETTINGS, fine_tune, loss_of
from training_fixtures import StopAt, compact, fast, make_run, rows, same_bits, small_model, weights_of

import wordle_rl.train.logprobs as logprobs_module
from wordle_rl.config.base import ConfigError
from wordle_rl.prompt import Shape
from wordle_rl.train.example import Example, encode_traces
from wordle_rl.train.learner import TorchLearner
from wordle_rl.train.sft import Plan

STEPS_PER_EPOCH = 4


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_the_loss_falls(shape, optimizer, plain_traces, tokenizer, codec, sixty, tmp_path) -> None:
    examples = encode_traces(plain_traces, compact(shape), codec, 1000).examples
    model = small_model(tokenizer)
    before = loss_of(model, examples)
    settings = SETTINGS.model_copy(update={"optimizer": fast(optimizer), "epochs": 2})
    fine_tune(model, codec, examples, settings, make_run(tmp_path, sixty))
    assert loss_of(model, examples) < 0.85 * before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "manifest.json", "metrics.jsonl", "sft"]


@pytest.fixture
def tune(tokenizer, codec, sixty, tmp_path):
    """Fine-tunes a small model in a directory; the model, and the lines it wrote."""

    def run(examples, directory="run", model=None, validation=(), **changes):
        fitting = {
            name: changes.pop(name) for name in ("micro_batch_size", "gradient_checkpointing") if name in changes
        }
        model, settings = model or small_model(tokenizer), SETTINGS.model_copy(update=changes)
        run = make_run(tmp_path / directory, sixty)
        fine_tune(model, codec, examples, settings, run, validation=validation, fitting=fitting)
        return model, rows(tmp_path / directory / "metrics.jsonl")

    return run


def test_lines_hold_the_epoch_and_the_tokens_so_far(examples, tune) -> None:
    _, found = tune(examples, epochs=2)
    assert 0 <= found[-1]["mean_token_accuracy"] <= 1
    assert [row["epoch"] for row in found] == [step / STEPS_PER_EPOCH for step in range(1, 2 * STEPS_PER_EPOCH + 1)]
    counts = [row["num_tokens"] for row in found]
    whole = sum(len(example.token_ids) for example in examples)
    assert [counts[STEPS_PER_EPOCH - 1], counts[-1]] == [whole, 2 * whole]
    assert counts == sorted(set(counts))
    assert {row["learning_rate"] for row in found} == {3e-3}


def test_a_line_of_several_steps_has_their_mean_loss_and_the_place_of_the_last(examples, tune) -> None:
    _, single = tune(examples, "single", epochs=1, logging_steps=1)
    _, [line, last] = tune(examples, "several", epochs=1, logging_steps=3)
    assert (line["step"], last["step"]) == (3, STEPS_PER_EPOCH)
    for name in ("loss", "grad_norm"):
        assert line[name] == pytest.approx(sum(row[name] for row in single[:3]) / 3)
    for name in ("epoch", "num_tokens"):
        assert (line[name], last[name]) == (single[2][name], single[3][name])
    _, saved = tune(examples, "saved", epochs=1, logging_steps=3, save_steps=2)
    assert [row["step"] for row in saved] == [2, 3, STEPS_PER_EPOCH], "a checkpoint ends a line"


def test_a_row_that_a_stop_divides_has_the_seconds_of_its_steps(
    examples, tokenizer, codec, sixty, tmp_path, monkeypatch
) -> None:
    """Of a step on average, not of those before the stop as well for each after it."""
    whole = TorchLearner.update

    def timed(learner, micro_batches, loss, step):
        return replace(whole(learner, micro_batches, loss, step), seconds={"forward": float(step)})

    monkeypatch.setattr(TorchLearner, "update", timed)
    run, settings = make_run(tmp_path, sixty), SETTINGS.model_copy(update={"epochs": 2, "logging_steps": 4})
    with pytest.raises(KeyboardInterrupt):
        fine_tune(small_model(tokenizer), codec, examples, settings, run, progress=StopAt(3))
    fine_tune(small_model(tokenizer), codec, examples, settings, run)
    assert [row["seconds/forward"] for row in rows(tmp_path / "metrics.jsonl")] == [2.5, 6.5]


def test_the_order_of_games_is_one_of_seed_and_epoch_and_keeps_lengths_together() -> None:
    lengths = [10 + i % 7 for i in range(400)]
    plans = {seed: Plan(lengths, 8, 1, 2, seed) for seed in (0, 1)}
    orders = {(seed, epoch): plans[seed].order(epoch) for seed in (0, 1) for epoch in (0, 1)}
    torch.rand(3)  # the global random stream plays no part
    assert orders[0, 1] == plans[0].order(1)
    assert len({tuple(order) for order in orders.values()}) == 4
    for order in orders.values():
        assert sorted(order) == list(range(400))
        batches = [{lengths[i] for i in order[start : start + 8]} for start in range(0, 400, 8)]
        assert sum(len(batch) for batch in batches) / len(batches) < 2.5


@pytest.mark.parametrize("count", [2, 3])
def test_processes_share_the_games_of_a_step(count, monkeypatch) -> None:
    """Together they have the games of one process with a batch as large as all theirs; at the end some have none."""
    monkeypatch.setenv("WORLD_SIZE", "1")
    alone = dict(Plan([9] * 50, 4 * count, 1, 1, 0).steps(0))
    monkeypatch.setenv("WORLD_SIZE", str(count))
    found: dict[int, list[int]] = {}
    for rank in range(count):
        monkeypatch.setenv("RANK", str(rank))
        for step, batches in Plan([9] * 50, 4, 1, 1, 0).steps(0):
            assert len(batches) <= 1
            found[step] = found.get(step, []) + [game for batch in batches for game in batch]
    assert found == {step: batches[0] for step, batches in alone.items()}


def test_without_games_nothing_is_trained(tune, tmp_path) -> None:
    with pytest.raises(ConfigError):
        tune([])
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


# --- the validation loss: of games that are not trained on, and training does not feel it ---


@pytest.fixture(scope="session")
def games(plain_traces, codec) -> tuple[list[Example], list[Example]]:
    """Some to learn, 51 in four batches; some to measure by, in one batch of 16 and one that is not full."""
    examples = encode_traces(plain_traces, compact(), codec, 1000).examples
    return examples[13:], examples[:13] + examples[:10]


def measured(lines: list[dict]) -> list[dict]:
    return [line for line in lines if "validation_loss" in line]


def test_training_is_the_same_to_the_last_bit_with_and_without(games, tune, tokenizer) -> None:
    """Also with dropout, which draws from the random stream in every training step."""
    learnt, held_out = games
    ends = []
    for per_epoch, dropout in ((0, 0.3), (1, 0.3), (3, 0.3), (0, 0.0)):
        model = small_model(tokenizer)
        model.config.attention_dropout = model.model.layers[0].self_attn.attention_dropout = dropout
        torch.manual_seed(1)
        validation = held_out if per_epoch else ()
        _, lines = tune(learnt, str(len(ends)), model, validation, validations_per_epoch=per_epoch)
        assert len(measured(lines)) == 3 * per_epoch
        logged = [row for row in lines if "loss" in row]
        numbers = [(row["step"], row["loss"], row["grad_norm"], row["mean_token_accuracy"]) for row in logged]
        streams = torch.random.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()
        ends.append((weights_of(model), numbers, streams, model.training))
    (weights, *others), once, thrice, (without_dropout, *_) = ends
    for found, *rest in (once, thrice):
        assert same_bits(weights, found)
        assert rest == others
    assert not same_bits(weights, without_dropout)


@pytest.mark.parametrize("pieces", [False, True], ids=["over distinct tokens", "row by row, the head in pieces"])
def test_the_loss_is_the_one_worked_out_by_hand(pieces, games, tune, monkeypatch) -> None:
    """Over batches of unequal size."""
    if pieces:
        monkeypatch.setattr(logprobs_module, "PIECE_BYTES", 1)
    learnt, held_out = games
    model, lines = tune(learnt, validation=held_out, epochs=1, gradient_checkpointing=pieces)
    last = measured(lines)[-1]
    assert last["validation_loss"] == pytest.approx(loss_of(model, held_out), rel=1e-5)
    assert last["validation_mean_token_accuracy"] == pytest.approx(accuracy_of(model, held_out), abs=1e-6)


@torch.no_grad()
def accuracy_of(model, examples: list[Example]) -> float:
    right = []
    for example in examples:
        chosen = model(input_ids=torch.tensor([example.token_ids])).logits[0, :-1].argmax(-1).tolist()
        learnt = zip(example.token_ids[1:], chosen, example.loss_mask[1:], strict=True)
        right += [token == said for token, said, mask in learnt if mask]
    return sum(right) / len(right)


@pytest.mark.parametrize(
    ("per_epoch", "epochs", "accumulation", "steps"),
    [(1, 1.5, 1, [4, 6]), (3, 1, 1, [2, 3, 4]), (1, 2, 3, [2, 4]), (0, 1, 1, [])],
)
def test_it_is_taken_so_many_times_per_epoch_and_at_the_end(
    per_epoch, epochs, accumulation, steps, games, tune
) -> None:
    learnt, held_out = games
    size = SETTINGS.batch_size
    changes = {"epochs": epochs, "batch_size": size * accumulation, "micro_batch_size": size}
    _, lines = tune(learnt, validation=held_out, validations_per_epoch=per_epoch, **changes)
    assert [row["step"] for row in measured(lines)] == steps
    assert not [row for row in measured(lines) if "loss" in row]
