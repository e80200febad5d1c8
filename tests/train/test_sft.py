"""Laws of supervised fine-tuning: it learns, only what is taught, and an interruption changes no bit."""

import itertools
import random
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

import numpy as np
from sft_training import SETTINGS, fine_tune, loss_of
from training_fixtures import compact, fast, make_run, rows, same_bits, small_model, weights_of

import wordle_rl.train.logprobs as logprobs_module
from wordle_rl.config import ConfigError, SFTTraining
from wordle_rl.data.dataset import Example, encode_traces
from wordle_rl.prompt import Shape
from wordle_rl.train.sft import Plan, fit

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


def test_lines_hold_the_epoch_and_the_tokens_so_far(examples, tokenizer, codec, sixty, tmp_path) -> None:
    settings = SETTINGS.model_copy(update={"epochs": 2})
    fine_tune(small_model(tokenizer), codec, examples, settings, make_run(tmp_path, sixty))
    found = rows(tmp_path / "metrics.jsonl")
    steps = list(range(1, 2 * STEPS_PER_EPOCH + 1))
    assert found[-1]["loss"] < found[0]["loss"]
    assert 0 <= found[-1]["mean_token_accuracy"] <= 1
    assert [row["epoch"] for row in found] == [step / STEPS_PER_EPOCH for step in steps]
    counts = [row["num_tokens"] for row in found]
    whole = sum(len(example.token_ids) for example in examples)
    assert [counts[STEPS_PER_EPOCH - 1], counts[-1]] == [whole, 2 * whole]
    assert all(a < b for a, b in itertools.pairwise(counts))
    assert {row["learning_rate"] for row in found} == {3e-3}


def test_a_line_of_several_steps_has_their_mean_loss_and_the_place_of_the_last(
    examples, tokenizer, codec, sixty, tmp_path
) -> None:
    found = {}
    for every in (1, 3):
        settings = SETTINGS.model_copy(update={"epochs": 1, "logging_steps": every})
        fine_tune(small_model(tokenizer), codec, examples, settings, make_run(tmp_path / str(every), sixty))
        found[every] = rows(tmp_path / str(every) / "metrics.jsonl")
    assert [row["step"] for row in found[3]] == [3, STEPS_PER_EPOCH]
    assert found[3][0]["loss"] == pytest.approx(sum(row["loss"] for row in found[1][:3]) / 3)
    for name in ("epoch", "num_tokens", "grad_norm"):
        assert [row[name] for row in found[3]] == [found[1][2][name], found[1][3][name]]


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


def test_without_games_nothing_is_trained(tokenizer, codec, sixty, tmp_path) -> None:
    with pytest.raises(ConfigError):
        fine_tune(small_model(tokenizer), codec, [], SETTINGS, make_run(tmp_path, sixty))
    assert not (tmp_path / "metrics.jsonl").exists()


# --- the validation loss: of games that are not trained on, and training does not feel it ---


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


def test_every_row_counts_in_a_pass_and_the_rows_of_an_item_stay_together() -> None:
    passes: list[list[int]] = []
    learner = SimpleNamespace(
        start=lambda *_: None,
        evaluate=lambda *_: {},
        update=lambda batches, *_: passes.append([len(batch) for batch in batches]),
    )
    loop = SimpleNamespace(learner=learner, restore=lambda: (0, None), after=lambda *_, **__: False)
    items = [[Example([1, 2], [0, 1])] * 5] * 6
    for most in (12, 4, 0):
        fit(loop, items, SFTTraining(batch_size=6, micro_batch_size=most, epochs=1))
    assert passes == [[10, 10, 10], [5] * 6, [30]]
