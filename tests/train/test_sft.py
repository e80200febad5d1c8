"""Laws of supervised fine-tuning: it learns, only what is taught, and an interruption changes no bit."""

import itertools

import pytest
from sft_training import SETTINGS, fine_tune, loss_of, torch
from training_fixtures import compact, fast, make_run, rows, same_bits, small_model, weights_of

from wordle_rl.config import ConfigError, ModelSettings
from wordle_rl.data.dataset import encode_traces
from wordle_rl.policy.loading import load_model
from wordle_rl.prompt import Shape
from wordle_rl.train.sft import Plan

STEPS_PER_EPOCH = 4


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_the_loss_falls_and_the_model_is_saved(
    shape, optimizer, plain_traces, tokenizer, codec, sixty, tmp_path
) -> None:
    examples = encode_traces(plain_traces, compact(shape), codec, 1000).examples
    model = small_model(tokenizer)
    before = loss_of(model, examples)
    settings = SETTINGS.model_copy(update={"optimizer": fast(optimizer), "epochs": 2})
    directory = fine_tune(model, codec, examples, settings, make_run(tmp_path, sixty))
    after = loss_of(model, examples)
    assert after < 0.85 * before
    saved, _ = load_model(ModelSettings(path=str(directory)), 0)
    assert same_bits(weights_of(model), weights_of(saved))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "manifest.json", "metrics.jsonl", "sft"]
    assert not (directory / "checkpoints").exists()


def test_metrics_hold_a_line_per_step(examples, tokenizer, codec, sixty, tmp_path) -> None:
    told, settings = [], SETTINGS.model_copy(update={"epochs": 2})
    run = make_run(tmp_path, sixty)
    fine_tune(small_model(tokenizer), codec, examples, settings, run, progress=lambda *a: told.append(a))
    found = rows(tmp_path / "metrics.jsonl")
    steps = list(range(1, 2 * STEPS_PER_EPOCH + 1))
    assert [row["step"] for row in found] == steps
    assert all(row["stage"] == "sft" and row["loss"] > 0 and row["seconds"] >= 0 for row in found)
    assert found[-1]["loss"] < found[0]["loss"]
    assert 0 <= found[-1]["mean_token_accuracy"] <= 1
    assert [row["epoch"] for row in found] == [step / STEPS_PER_EPOCH for step in steps]
    counts = [row["num_tokens"] for row in found]
    whole = sum(len(example.token_ids) for example in examples)
    assert [counts[STEPS_PER_EPOCH - 1], counts[-1]] == [whole, 2 * whole]
    assert all(a < b for a, b in itertools.pairwise(counts))
    assert {row["learning_rate"] for row in found} == {3e-3}
    assert [done for done, _, _ in told] == steps
    assert {total for _, total, _ in told} == {steps[-1]}


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
