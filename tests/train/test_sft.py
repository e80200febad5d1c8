"""Laws of supervised fine-tuning: it learns, only what is taught, and an interruption changes no bit."""

import itertools
import os
import signal
from pathlib import Path

import pytest
from lora_training import LORA, save_base
from sft_training import SETTINGS, fine_tune, loss_of, same_bits, torch
from training_fixtures import StopAt, compact, fast, make_run, rows, small_model, weights_of

from wordle_rl.config import ConfigError, ModelSettings
from wordle_rl.data.dataset import encode_traces
from wordle_rl.policy.loading import load_model
from wordle_rl.prompt import Shape
from wordle_rl.train.checkpoints import last_checkpoint
from wordle_rl.train.sft import Plan

STEPS_PER_EPOCH = 4
TIMES = ("seconds", "resident_memory_gib")


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


VARIANTS: dict[str, dict[str, object]] = {
    "adamw": {},
    "muon": {"optimizer": fast("muon")},
    "adapters with dropout": {},
    "validated": {"validations_per_epoch": 2},
    "a model per epoch": {"save_each_epoch": True, "micro_batch_size": 8, "batch_size": 16},
}


class Broken:
    """Trains a variant: at a stretch, stopped, killed. The trainings at a stretch are kept."""

    def __init__(self, examples, tokenizer, codec, words, directory: Path) -> None:
        self.examples, self.tokenizer, self.codec, self.words = examples, tokenizer, codec, words
        self.directory = directory
        self.whole: dict[str, dict] = {}

    def __call__(self, variant: str, name: str, seed: int = 0, progress=None, **changes) -> dict:
        """Train in a directory of that name; the weights it ends with."""
        if variant == "adapters with dropout":
            base = self.directory / "base"
            if not base.exists():
                save_base(base, self.codec, num_hidden_layers=1)
            lora = LORA.model_copy(update={"dropout": 0.2})
            model, _ = load_model(ModelSettings(path=str(base), lora=lora), seed)
        else:
            model = small_model(self.tokenizer, seed=seed)
        validation = self.examples[:6] if variant == "validated" else ()
        settings = SETTINGS.model_copy(update={"epochs": 2, **VARIANTS[variant], **changes})
        run = make_run(self.directory / variant / name, self.words)
        learnt = self.examples[:60]
        fine_tune(model, self.codec, learnt, settings, run, validation=validation, progress=progress)
        return weights_of(model)

    def check(self, variant: str, name: str, weights: dict) -> None:
        """Compare weights, metrics and files of a training with those of one at a stretch."""
        if variant not in self.whole:
            self.whole[variant] = self(variant, "whole")
        assert same_bits(self.whole[variant], weights)
        places = [self.directory / variant / each for each in ("whole", name)]
        logged = [rows(place / "metrics.jsonl") for place in places]
        timeless = [[{n: v for n, v in row.items() if n not in TIMES} for row in part] for part in logged]
        assert timeless[0] == timeless[1]
        files = [_contents(place / "sft") for place in places]
        assert files[0] == files[1]
        assert any(name.startswith("epochs/") for name in files[0]) == (variant == "a model per epoch")


def _contents(directory: Path) -> dict[str, bytes]:
    found = {path.relative_to(directory).as_posix(): path for path in directory.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items()}


@pytest.fixture(scope="module")
def broken(examples, tokenizer, codec, sixty, tmp_path_factory) -> Broken:
    return Broken(examples, tokenizer, codec, sixty, tmp_path_factory.mktemp("broken"))


@pytest.mark.parametrize(
    ("variant", "stop_at"),
    [
        ("adamw", 3),  # in an epoch of four steps
        ("adamw", 4),  # at its end
        ("muon", 6),
        ("adapters with dropout", 6),
        ("validated", 4),
        ("a model per epoch", 4),
    ],
)
def test_interrupted_and_resumed_has_the_bits_of_uninterrupted(variant, stop_at, broken) -> None:
    name = f"stopped-{stop_at}"
    with pytest.raises(KeyboardInterrupt):
        broken(variant, name, progress=StopAt(stop_at))
    stage = broken.directory / variant / name / "sft"
    checkpoint = last_checkpoint(stage / "checkpoints")
    assert checkpoint is not None
    assert checkpoint.name == f"checkpoint-{stop_at}"
    assert not [*stage.glob("*.safetensors")]
    # With another seed: every weight must come from the checkpoint.
    broken.check(variant, name, broken(variant, name, seed=0 if variant.startswith("adapters") else 5))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


class Killed(BaseException):
    """The end of a process, as far as a training can tell."""


@pytest.mark.parametrize("variant", VARIANTS)
def test_killed_and_resumed_has_the_bits_of_uninterrupted(variant, broken) -> None:
    """Killed three steps after its last checkpoint, all of whose lines are then written again."""

    def kill(done: int, _total: int, _note: str) -> None:
        if done == 6:
            raise Killed

    with pytest.raises(Killed):
        broken(variant, "killed", progress=kill, save_steps=3)
    checkpoint = last_checkpoint(broken.directory / variant / "killed" / "sft" / "checkpoints")
    assert checkpoint is not None
    assert checkpoint.name == "checkpoint-3"
    broken.check(variant, "killed", broken(variant, "killed"))


def test_a_training_stopped_at_its_last_step_is_only_saved(examples, tokenizer, codec, sixty, tmp_path) -> None:
    """Half-way through an epoch."""
    settings, run = SETTINGS.model_copy(update={"epochs": 1.5}), make_run(tmp_path, sixty)
    stopped = small_model(tokenizer)
    with pytest.raises(KeyboardInterrupt):
        fine_tune(stopped, codec, examples, settings, run, progress=StopAt(6))
    resumed = small_model(tokenizer, seed=5)
    fine_tune(resumed, codec, examples, settings, run)
    assert [row["step"] for row in rows(tmp_path / "metrics.jsonl")] == list(range(1, 7))
    assert same_bits(weights_of(stopped), weights_of(resumed))


def test_a_second_interrupt_is_not_held_back(examples, tokenizer, codec, sixty, tmp_path) -> None:
    def twice(done: int, _total: int, _note: str) -> None:
        if done == 1:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        fine_tune(small_model(tokenizer), codec, examples, SETTINGS, make_run(tmp_path, sixty), progress=twice)
    assert last_checkpoint(tmp_path / "sft" / "checkpoints") is None
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_without_games_nothing_is_trained(tokenizer, codec, sixty, tmp_path) -> None:
    with pytest.raises(ConfigError):
        fine_tune(small_model(tokenizer), codec, [], SETTINGS, make_run(tmp_path, sixty))
    assert not (tmp_path / "metrics.jsonl").exists()
