"""Laws of a GRPO that was stopped: it goes on as it would have, and an interruption loses nothing."""

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from grpo_training import SETTINGS, close, logprob, update
from training_fixtures import StopAt, rows, small_model, weights_of

from wordle_rl.config import ModelSettings
from wordle_rl.models.loading import load_model
from wordle_rl.training.checkpoints import last_checkpoint


def test_ctrl_c_saves_a_checkpoint_and_going_on_restores_the_record(train, tmp_path) -> None:
    settings = update(SETTINGS, steps=3)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, settings, progress=StopAt(2))
    checkpoint = last_checkpoint(tmp_path / "grpo" / "checkpoints")
    assert checkpoint is not None
    assert checkpoint.endswith("checkpoint-2")
    stored = json.loads((Path(checkpoint) / "wordle_rl_state.json").read_text())
    first = train.all_rollouts[0]
    assert {"model.safetensors", "optimizer.pt"} < set(stored.pop("files"))
    assert stored == {
        "priorities": first.starts.picker.state(),
        "best_compliance": None,  # too few steps for a mean
        "compliance": first.state()["compliance"],
        "cumulative_wins": first.cumulative_wins,
    }
    assert stored["priorities"]
    assert len(stored["compliance"]) == 2

    record = json.loads((Path(checkpoint) / "wordle_rl_state.json").read_text()) | {"cumulative_wins": 41}
    (Path(checkpoint) / "wordle_rl_state.json").write_text(json.dumps(record))
    train(tmp_path, settings, model=small_model(train.tokenizer, seed=3))
    assert [row["step"] for row in rows(tmp_path / "metrics.jsonl")] == [1, 2, 3]
    assert rows(tmp_path / "metrics.jsonl")[-1]["cumulative_wins"] == 41
    second = train.all_rollouts[1]
    assert second.state()["compliance"][:2] == stored["compliance"]
    untouched = set(stored["priorities"]) - {game.trajectory.transcript.secret for game in train.games[-1]}
    assert all(second.starts.picker.state()[secret] == stored["priorities"][secret] for secret in untouched)
    assert (tmp_path / "grpo" / "model.safetensors").is_file()


@pytest.mark.parametrize(
    "changes", [{}, {"max_refills": 2}, {"micro_batch_size": 2, "probe_every_steps": 2, "prioritized_fraction": 1.0}]
)
def test_interrupted_and_resumed_equals_uninterrupted(changes, train, tmp_path) -> None:
    settings = update(SETTINGS, steps=4, **changes)
    whole = train(tmp_path / "whole", settings)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "parts", settings, progress=StopAt(2))
    resumed = train(tmp_path / "parts", settings, model=small_model(train.tokenizer, seed=5))
    assert rows(tmp_path / "parts" / "secrets.jsonl") == rows(tmp_path / "whole" / "secrets.jsonl")
    assert close(weights_of(whole), weights_of(resumed))


def test_going_on_takes_the_weights_from_the_checkpoint(train, tmp_path) -> None:
    """The resumed step's sampler scores tokens with the interrupted model's weights, not with those it was handed."""
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, update(SETTINGS, steps=2), progress=StopAt(1))
    checkpoint, _ = load_model(ModelSettings(path=last_checkpoint(tmp_path / "grpo" / "checkpoints")), 0)
    train(tmp_path, update(SETTINGS, steps=2), model=small_model(train.tokenizer, seed=3))
    game = train.games[-1][0]
    sampled = sum(sum(segment.sampler_logprobs) for segment in game.trajectory.segments)
    assert logprob(checkpoint, game.trajectory.segments) == pytest.approx(sampled, abs=1e-3)


def test_a_training_stopped_at_its_last_step_is_only_saved(train, tmp_path) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, SETTINGS, progress=StopAt(2))
    assert not (tmp_path / "grpo" / "model.safetensors").exists()
    train(tmp_path, SETTINGS)
    assert len(train.games) == 2
    assert (tmp_path / "grpo" / "model.safetensors").is_file()
