"""Laws of SFT on MLX: TRL's batches, losses and weights; every taught reply; training that resumes exactly."""

import pytest

pytest.importorskip("mlx")

import mlx.core as mx
import numpy as np
from mlx_models import firm
from sft_training import SETTINGS, examples, loss_of  # noqa: F401  # a fixture
from training_fixtures import StopAt, compact, make_run, rows, small_model

from wordle_rl.config import ConfigError, SFTSettings
from wordle_rl.data.dataset import encode_traces
from wordle_rl.mlx import sft as sft_module
from wordle_rl.mlx.model import of_transformers
from wordle_rl.mlx.sft import Plan, train_sft
from wordle_rl.runs import RunError
from wordle_rl.training import guard
from wordle_rl.training.sft import train_sft as train_with_trl

FEW = SETTINGS.model_copy(update={"epochs": 2.0, "gradient_accumulation_steps": 2, "batch_size": 8})


def metrics(run, kind: str = "loss") -> list[dict]:
    return [row for row in rows(run.directory / "metrics.jsonl") if kind in row]


def test_losses_and_weights_are_those_of_trl(tokenizer, codec, sixty, examples, tmp_path) -> None:  # noqa: F811
    ours, theirs = (make_run(tmp_path / name, sixty) for name in ("ours", "theirs"))
    whole = firm(small_model(tokenizer))
    model = of_transformers(whole)
    train_sft(model, codec, examples, FEW, ours, validation=examples[:9])
    train_with_trl(whole, codec, examples, FEW, theirs, validation=examples[:9])
    a, b = metrics(ours), metrics(theirs)
    assert [row["step"] for row in a] == [row["step"] for row in b]
    assert len(a) >= 8
    for name in ("loss", "grad_norm"):
        assert [row[name] for row in a] == pytest.approx([row[name] for row in b], abs=2e-4), name
    validated = [[row["validation_loss"] for row in metrics(run, "validation_loss")] for run in (ours, theirs)]
    assert validated[0] == pytest.approx(validated[1], abs=2e-4)
    weights = model.weights()
    for name, parameter in whole.named_parameters():
        assert np.abs(parameter.detach().numpy() - np.array(weights[name])).max() < 5e-3


def test_every_taught_reply_is_trained_on(codec, traces) -> None:
    """Narrated games of a teacher that strays: strays are not taught, all other replies are."""
    encoded = encode_traces(traces[:5], compact(), codec, 2000).examples
    chosen = sft_module.choose([e.token_ids for e in encoded], [e.loss_mask for e in encoded], codec.pad_id)
    assert chosen.count == sum(sum(example.loss_mask) for example in encoded)
    for number, example in enumerate(encoded):
        trained = [c for r, c in zip(chosen.rows.tolist(), chosen.columns.tolist(), strict=True) if r == number]
        assert trained == [place for place, m in enumerate(example.loss_mask) if m]
    taught = [sum(turn.taught for turn in trace.turns) for trace in traces[:5]]
    ends = [sum(e.token_ids[i] in codec.stop_ids for i, m in enumerate(e.loss_mask) if m) for e in encoded]
    assert ends == [count for count in taught if count]
    assert max(ends) > 2


@pytest.mark.parametrize("changes", [{}, {"gradient_checkpointing": True}])
def test_a_stopped_training_resumes_as_if_never_stopped(tokenizer, codec, sixty, examples, tmp_path, changes) -> None:  # noqa: F811
    settings = FEW.model_copy(update={**changes, "save_steps": 2})
    straight, stopped = (make_run(tmp_path / name, sixty) for name in ("straight", "stopped"))
    first = of_transformers(firm(small_model(tokenizer)))
    train_sft(first, codec, examples, settings, straight)
    half = of_transformers(firm(small_model(tokenizer)))
    with pytest.raises(KeyboardInterrupt):
        train_sft(half, codec, examples, settings, stopped, progress=StopAt(3))
    assert not (stopped.directory / "sft" / "model.safetensors").exists()
    second = of_transformers(firm(small_model(tokenizer)))
    train_sft(second, codec, examples, settings, stopped)
    ours, theirs = first.weights(), second.weights()
    assert all(mx.array_equal(ours[name], theirs[name]).item() for name in ours)
    assert [row["loss"] for row in metrics(straight)] == [row["loss"] for row in metrics(stopped)]
    assert not (stopped.directory / "sft" / "checkpoints").exists()


def test_recomputed_layers_change_nothing(tokenizer, codec, sixty, examples, tmp_path) -> None:  # noqa: F811
    found = []
    for kept in (False, True):
        model = of_transformers(firm(small_model(tokenizer)))
        run = make_run(tmp_path / str(kept), sixty)
        settings = FEW.model_copy(update={"gradient_checkpointing": kept, "epochs": 0.5})
        train_sft(model, codec, examples, settings, run)
        found.append([row["loss"] for row in metrics(run)])
    assert found[0] == pytest.approx(found[1], abs=1e-5)


def test_each_epoch_is_kept_if_asked_for(tokenizer, codec, sixty, examples, tmp_path) -> None:  # noqa: F811
    run = make_run(tmp_path / "run", sixty)
    settings = FEW.model_copy(update={"save_each_epoch": True})
    train_sft(of_transformers(small_model(tokenizer)), codec, examples, settings, run)
    kept = sorted(path.parent.name for path in (run.directory / "sft" / "epochs").glob("*/model.safetensors"))
    assert kept == ["epoch-1", "epoch-2"]


def test_a_loss_that_is_not_finite_changes_nothing_and_stops(
    tokenizer,
    codec,
    sixty,
    examples,  # noqa: F811
    tmp_path,
    monkeypatch,
) -> None:
    monkeypatch.setattr(guard, "MAX_BAD_STEPS", 3)
    model = of_transformers(firm(small_model(tokenizer)))
    norm = model.network.model.norm
    norm.weight = mx.full(norm.weight.shape, float("inf"))
    before = np.array(model.weights()["model.embed_tokens.weight"])
    run = make_run(tmp_path / "run", sixty)
    with pytest.raises(RunError, match=r"sft stopped at step 3: loss or gradient were not finite in 3 steps in a row"):
        train_sft(model, codec, examples, FEW, run)
    assert np.array_equal(np.array(model.weights()["model.embed_tokens.weight"]), before)
    assert [row["skipped_steps"] for row in rows(run.directory / "metrics.jsonl")] == [1, 1, 1]


def test_without_games_nothing_is_trained(tokenizer, codec, sixty, tmp_path) -> None:
    with pytest.raises(ConfigError, match="no games to train on"):
        train_sft(of_transformers(small_model(tokenizer)), codec, [], FEW, make_run(tmp_path / "run", sixty))


def test_a_plan_takes_every_game_once_an_epoch() -> None:
    plan = Plan.of([4, 9, 5, 7, 6, 8, 3], SFTSettings(batch_size=2, gradient_accumulation_steps=2, epochs=2), seed=1)
    steps = list(plan.steps(0))
    assert (plan.steps_per_epoch, plan.total_steps) == (2, 4)
    for epoch in (steps[:2], steps[2:]):
        assert sorted(game for _, batches in epoch for batch in batches for game in batch) == list(range(7))
    assert list(plan.steps(3)) == steps[3:]
    assert all(len(batches) <= 2 and all(len(batch) <= 2 for batch in batches) for _, batches in steps)
