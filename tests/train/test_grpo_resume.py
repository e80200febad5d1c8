"""Laws of a GRPO that was stopped: resumed it ends with the same bits, and an interruption loses nothing."""

import json

import pytest

pytest.importorskip("torch")

from grpo_by_hand import Player
from grpo_training import SETTINGS, logprob, same, train_fixture, update  # noqa: F401  # a fixture
from lora_training import LORA, save_base
from training_fixtures import StopAt, rows, small_model, weights_of

from wordle_rl.config import LoraSettings, ModelSettings
from wordle_rl.policy.loading import load_model
from wordle_rl.train.checkpoints import STATE_FILE, last_checkpoint, stored_state


def numbers(run) -> list[dict]:
    """What metrics.jsonl holds but times and memory."""
    times = ("seconds", "step_time", "resident_memory_gib")
    return [
        {name: value for name, value in row.items() if not name.startswith(times)}
        for row in rows(run / "metrics.jsonl")
    ]


def test_ctrl_c_saves_a_checkpoint_and_a_resume_restores_the_state(train, tmp_path) -> None:
    settings = update(SETTINGS, steps=3)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, settings, progress=StopAt(2))
    checkpoint = last_checkpoint(tmp_path / "grpo" / "checkpoints")
    assert checkpoint is not None
    assert checkpoint.name == "checkpoint-2"
    assert {"model.safetensors", "optimizer.pt"} < {path.name for path in checkpoint.iterdir()}
    stored, first = stored_state(checkpoint), train.all_rollouts[0]
    assert stored == {
        "priorities": first.starts.picker.state(),
        "best_compliance": None,  # too few steps for a mean
        "compliance": first.state()["compliance"],
        "cumulative_wins": first.cumulative_wins,
        "num_tokens": rows(tmp_path / "metrics.jsonl")[-1]["num_tokens"],
    }
    assert stored["priorities"]
    assert len(stored["compliance"]) == 2

    record = json.loads((checkpoint / STATE_FILE).read_text()) | {"cumulative_wins": 41, "best_compliance": 0.75}
    (checkpoint / STATE_FILE).write_text(json.dumps(record))
    train(tmp_path, settings, model=small_model(train.tokenizer, seed=3))
    assert [row["step"] for row in rows(tmp_path / "metrics.jsonl")] == [1, 2, 3]
    assert rows(tmp_path / "metrics.jsonl")[-1]["cumulative_wins"] == 41
    second = train.all_rollouts[1]
    assert second.best_compliance == 0.75
    assert second.state()["compliance"][:2] == stored["compliance"]
    assert second.schedule.asked == [0.75]
    untouched = set(stored["priorities"]) - {game.trajectory.transcript.secret for game in train.games[-1]}
    assert all(second.starts.picker.state()[secret] == stored["priorities"][secret] for secret in untouched)
    assert (tmp_path / "grpo" / "model.safetensors").is_file()


@pytest.mark.parametrize(
    "changes", [{}, {"max_refills": 2}, {"micro_batch_size": 2, "probe_every_steps": 2, "prioritized_fraction": 1.0}]
)
def test_interrupted_and_resumed_equals_uninterrupted(changes, train, tmp_path) -> None:
    """All that a resume has of the first training is the run: the model that it is given has other weights."""
    settings = update(SETTINGS, steps=4, **changes)
    whole = train(tmp_path / "whole", settings)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "parts", settings, progress=StopAt(2))
    resumed = train(tmp_path / "parts", settings, model=small_model(train.tokenizer, seed=5))
    assert rows(tmp_path / "parts" / "secrets.jsonl") == rows(tmp_path / "whole" / "secrets.jsonl")
    assert rows(tmp_path / "parts" / "games.jsonl") == rows(tmp_path / "whole" / "games.jsonl")
    assert same(weights_of(whole), weights_of(resumed))
    assert train.all_rollouts[-1].state() == train.all_rollouts[0].state()


@pytest.mark.parametrize("lora", [LoraSettings(), LORA], ids=["whole model", "adapters"])
@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_the_start_stays_the_start_after_a_resume(beta, lora, train, tmp_path) -> None:
    """The KL penalty, and the divergence that is logged without one, are those from the weights of the first step."""
    start = ModelSettings(path=str(save_base(tmp_path / "start", train.codec)), lora=lora)
    settings = update(SETTINGS, steps=3, beta=beta)
    whole = train(tmp_path / "whole", settings, model=load_model(start, 0)[0])
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "parts", settings, model=load_model(start, 0)[0], progress=StopAt(2))
    resumed = train(tmp_path / "parts", settings, model=load_model(start, 0)[0])
    assert numbers(tmp_path / "parts") == numbers(tmp_path / "whole")
    away = [row["kl" if beta else "kl_to_start"] for row in numbers(tmp_path / "whole")]
    assert away[0] == pytest.approx(0, abs=1e-7) != away[2]
    assert away[2] > 1e-5
    assert same(weights_of(whole), weights_of(resumed))


def test_games_ahead_are_played_again_after_a_resume(train, tmp_path) -> None:
    """The games under way at a checkpoint are no part of it; the compliance that was measured meanwhile is."""
    script = [("crane", "no idea", "speed"), ("a b", "speed", "crane"), (None, None, "speed")]
    settings = update(SETTINGS, steps=4, batches_ahead=1, engine="http://localhost:1")
    whole = train(tmp_path / "whole", settings, engine=Player(train.codec, script))
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "parts", settings, engine=Player(train.codec, script), progress=StopAt(2))
    other = small_model(train.tokenizer, seed=5)
    resumed = train(tmp_path / "parts", settings, model=other, engine=Player(train.codec, script))
    assert rows(tmp_path / "parts" / "secrets.jsonl") == rows(tmp_path / "whole" / "secrets.jsonl")
    assert rows(tmp_path / "parts" / "games.jsonl") == rows(tmp_path / "whole" / "games.jsonl")
    assert same(weights_of(whole), weights_of(resumed))
    assert train.all_rollouts[-1].state() == train.all_rollouts[0].state()
