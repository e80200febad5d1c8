"""Laws of supervised fine-tuning: it learns, only what is taught, and an interruption changes nothing."""

import os
import signal
from pathlib import Path

import pytest
from sft_training import SETTINGS, loss_of, torch
from training_fixtures import StopAt, compact, fast, make_run, rows, small_model, weights_of
from trl import SFTConfig, SFTTrainer

import wordle_rl.training.sft as sft_module
from wordle_rl.config import ConfigError, ModelSettings
from wordle_rl.data.dataset import encode_traces
from wordle_rl.models.loading import load_model
from wordle_rl.prompt import Shape
from wordle_rl.runs import RunError
from wordle_rl.training.checkpoints import last_checkpoint
from wordle_rl.training.sft import EpochOrder, as_dataset, train_sft


def close(a: dict, b: dict) -> bool:
    return all(torch.allclose(a[name], b[name], atol=1e-6) for name in a)


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_the_loss_falls_and_the_model_is_saved(
    shape, optimizer, plain_traces, tokenizer, codec, sixty, tmp_path
) -> None:
    examples = encode_traces(plain_traces, compact(shape), codec, 1000).examples
    model = small_model(tokenizer)
    before = loss_of(model, examples)
    settings = SETTINGS.model_copy(update={"optimizer": fast(optimizer), "epochs": 2})
    directory = train_sft(model, codec, examples, settings, make_run(tmp_path, sixty))
    after = loss_of(model, examples)
    assert after < 0.85 * before
    saved, _ = load_model(ModelSettings(path=str(directory)), 0)
    assert close(weights_of(model), weights_of(saved))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "manifest.json", "metrics.jsonl", "sft"]
    assert not (directory / "checkpoints").exists()


def test_metrics_hold_a_line_per_step(examples, tokenizer, codec, sixty, tmp_path) -> None:
    told = []
    train_sft(
        small_model(tokenizer), codec, examples, SETTINGS, make_run(tmp_path, sixty), progress=lambda *a: told.append(a)
    )
    found = rows(tmp_path / "metrics.jsonl")
    steps = 3 * -(-len(examples) // 16)
    assert [row["step"] for row in found] == list(range(1, steps + 1))
    assert all(row["stage"] == "sft" and row["loss"] > 0 and row["seconds"] >= 0 for row in found)
    assert found[-1]["loss"] < found[0]["loss"]
    assert 0 <= found[-1]["mean_token_accuracy"] <= 1
    assert [done for done, _, _ in told] == list(range(1, steps + 1))
    assert {total for _, total, _ in told} == {steps}


def test_the_first_logged_loss_is_the_one_worked_out_by_hand(examples, tokenizer, codec, sixty, tmp_path) -> None:
    few = examples[:16]
    expected = loss_of(small_model(tokenizer), few)
    train_sft(small_model(tokenizer), codec, few, SETTINGS.model_copy(update={"epochs": 1}), make_run(tmp_path, sixty))
    assert rows(tmp_path / "metrics.jsonl")[0]["loss"] == pytest.approx(expected, abs=2e-4)


def test_both_ways_to_work_out_the_loss_train_alike(examples, tokenizer, codec, sixty, tmp_path, monkeypatch) -> None:
    """The direct loss and TRL's own, over micro-batches of unequal length."""
    settings = SETTINGS.model_copy(update={"batch_size": 8, "gradient_accumulation_steps": 2, "epochs": 1})
    models = [small_model(tokenizer), small_model(tokenizer)]
    train_sft(models[0], codec, examples, settings, make_run(tmp_path / "direct", sixty))
    monkeypatch.setattr(sft_module, "SMALL_VOCABULARY", 0)
    train_sft(models[1], codec, examples, settings, make_run(tmp_path / "theirs", sixty))
    losses = [[row["loss"] for row in rows(tmp_path / name / "metrics.jsonl")] for name in ("direct", "theirs")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_labels_are_the_taught_tokens_and_minus_100_everywhere_else(traces, codec) -> None:
    examples = encode_traces(traces, compact(), codec, 1000).examples
    table = as_dataset(examples)
    assert table.column_names == ["input_ids", "labels"]
    assert len(table) == len(examples)
    for row, example in zip(table, examples, strict=True):
        assert row["input_ids"] == example.token_ids
        expected = [t if m else -100 for t, m in zip(example.token_ids, example.loss_mask, strict=True)]
        assert row["labels"] == expected


def test_the_trainer_hands_the_labels_on_unchanged(traces, tokenizer, codec, tmp_path) -> None:
    """TRL neither re-tokenises nor re-masks what it is given; padding alone is added, on the right."""
    examples = encode_traces(traces, compact(), codec, 1000).examples[:8]
    args = SFTConfig(
        output_dir=str(tmp_path),
        per_device_train_batch_size=8,
        max_length=None,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        report_to=[],
        dataset_kwargs={"skip_prepare_dataset": True},
    )
    trainer = SFTTrainer(
        small_model(tokenizer), args=args, train_dataset=as_dataset(examples), processing_class=codec.tokenizer
    )
    [batch] = trainer.get_train_dataloader()
    got = set()
    for ids, labels in zip(batch["input_ids"].tolist(), batch["labels"].tolist(), strict=True):
        length = len(ids) - next((i for i, x in enumerate(reversed(ids)) if x != codec.pad_id), 0)
        assert labels[length:] == [-100] * (len(labels) - length)
        got.add((tuple(ids[:length]), tuple(label != -100 for label in labels[:length])))
    assert got == {(tuple(e.token_ids), tuple(map(bool, e.loss_mask))) for e in examples}


def test_the_order_of_games_is_one_of_seed_and_epoch_and_keeps_lengths_together() -> None:
    lengths = [10 + i % 7 for i in range(400)]
    orders = {
        (seed, epoch): list(EpochOrder(8, lengths, seed, lambda e=epoch: e)) for seed in (0, 1) for epoch in (0, 1)
    }
    torch.rand(3)  # the global random stream plays no part
    assert orders[0, 1] == list(EpochOrder(8, lengths, 0, lambda: 1))
    assert len({tuple(order) for order in orders.values()}) == 4
    for order in orders.values():
        assert sorted(order) == list(range(400))
        batches = [{lengths[i] for i in order[start : start + 8]} for start in range(0, 400, 8)]
        assert sum(len(batch) for batch in batches) / len(batches) < 2.5
    filled = EpochOrder(8, lengths, 0, lambda: 1, num_fillers=3)
    assert list(filled) == [*orders[0, 1], 400, 401, 402]
    assert len(filled) == 403


@pytest.mark.parametrize(
    ("optimizer", "stop_at"), [("adamw", 3), ("adamw", 4), ("adamw", 7), ("adamw", 12), ("muon", 7)]
)
def test_interrupted_and_resumed_equals_uninterrupted(
    optimizer, stop_at, examples, tokenizer, codec, sixty, tmp_path
) -> None:
    """Steps 3 and 7 lie within an epoch of four steps, 4 at its end, 12 at the end of all."""
    settings = SETTINGS.model_copy(update={"optimizer": fast(optimizer)})
    whole = small_model(tokenizer)
    train_sft(whole, codec, examples, settings, make_run(tmp_path / "whole", sixty))

    run = make_run(tmp_path / "broken", sixty)
    with pytest.raises(KeyboardInterrupt):
        train_sft(small_model(tokenizer), codec, examples, settings, run, progress=StopAt(stop_at))
    checkpoint = last_checkpoint(tmp_path / "broken" / "sft" / "checkpoints")
    assert checkpoint is not None
    assert checkpoint.endswith(f"checkpoint-{stop_at}")
    assert not (tmp_path / "broken" / "sft" / "model.safetensors").exists()

    resumed = small_model(tokenizer, seed=5)  # every weight must come from the checkpoint
    train_sft(resumed, codec, examples, settings, run)
    steps = [row["step"] for row in rows(tmp_path / "broken" / "metrics.jsonl")]
    assert steps == list(range(1, 13))
    assert close(weights_of(whole), weights_of(resumed))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_training_stopped_at_its_last_step_is_only_saved(examples, tokenizer, codec, sixty, tmp_path) -> None:
    """Half-way through an epoch, where transformers would go on to the epoch's end."""
    settings, run = SETTINGS.model_copy(update={"epochs": 1.5}), make_run(tmp_path, sixty)
    stopped = small_model(tokenizer)
    with pytest.raises(KeyboardInterrupt):
        train_sft(stopped, codec, examples, settings, run, progress=StopAt(6))
    resumed = small_model(tokenizer, seed=5)
    train_sft(resumed, codec, examples, settings, run)
    assert [row["step"] for row in rows(tmp_path / "metrics.jsonl")] == list(range(1, 7))
    assert close(weights_of(stopped), weights_of(resumed))


def test_a_second_interrupt_is_not_held_back(examples, tokenizer, codec, sixty, tmp_path) -> None:
    def twice(done: int, _total: int, _note: str) -> None:
        if done == 1:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train_sft(small_model(tokenizer), codec, examples, SETTINGS, make_run(tmp_path, sixty), progress=twice)
    assert last_checkpoint(tmp_path / "sft" / "checkpoints") is None
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_half_written_checkpoint_is_passed_over(tmp_path: Path) -> None:
    whole = ["trainer_state.json", "wordle_rl_state.json"]
    for step, files in ((5, whole), (10, whole), (15, ["model.safetensors"]), (20, whole[:1])):
        (tmp_path / f"checkpoint-{step}").mkdir()
        for name in files:
            (tmp_path / f"checkpoint-{step}" / name).write_text("{}")
    assert last_checkpoint(tmp_path) == str(tmp_path / "checkpoint-10")
    (tmp_path / "checkpoint-10" / whole[1]).unlink()
    assert last_checkpoint(tmp_path) == str(tmp_path / "checkpoint-5")
    assert last_checkpoint(tmp_path / "nowhere") is None


def test_a_checkpoint_that_cannot_be_written_is_removed_and_named(
    examples, tokenizer, codec, sixty, tmp_path, monkeypatch
) -> None:
    def full(*_args: object, **_kwargs: object) -> None:
        raise RuntimeError("[enforce fail at inline_container.cc:668] . unexpected pos 64 vs 0")

    settings = SETTINGS.model_copy(update={"save_steps": 2})
    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(RunError, match=r"cannot save checkpoint .*checkpoint-2.*free space"):
        train_sft(small_model(tokenizer), codec, examples, settings, make_run(tmp_path, sixty))
    assert not (tmp_path / "sft" / "checkpoints" / "checkpoint-2").exists()


def test_every_epoch_leaves_its_model_and_tokenizer(examples, tokenizer, codec, sixty, tmp_path) -> None:
    settings = SETTINGS.model_copy(update={"epochs": 2, "save_each_epoch": True})
    trained = small_model(tokenizer)
    directory = train_sft(trained, codec, examples, settings, make_run(tmp_path, sixty))
    epochs = sorted((directory / "epochs").iterdir())
    assert [path.name for path in epochs] == ["epoch-1", "epoch-2"]
    first, last = (load_model(ModelSettings(path=str(path)), 0) for path in epochs)
    assert close(weights_of(last[0]), weights_of(trained))
    assert not close(weights_of(first[0]), weights_of(trained))
    assert first[1].tokenizer.chat_template == codec.tokenizer.chat_template


def test_gradient_checkpointing_reads_layers_twice_and_changes_no_update(
    examples, tokenizer, codec, sixty, tmp_path
) -> None:
    models, calls = [small_model(tokenizer), small_model(tokenizer)], [0, 0]
    for on, model in enumerate(models):

        def count(*_args: object, place: int = on) -> None:
            calls[place] += 1

        model.model.layers[0].mlp.up_proj.register_forward_hook(count)
        settings = SETTINGS.model_copy(update={"epochs": 1, "gradient_checkpointing": bool(on)})
        train_sft(model, codec, examples, settings, make_run(tmp_path / str(on), sixty))
    assert calls[1] == 2 * calls[0] > 0
    assert close(weights_of(models[0]), weights_of(models[1]))


def test_without_games_nothing_is_trained(tokenizer, codec, sixty, tmp_path) -> None:
    with pytest.raises(ConfigError, match="no games to train on"):
        train_sft(small_model(tokenizer), codec, [], SETTINGS, make_run(tmp_path, sixty))
