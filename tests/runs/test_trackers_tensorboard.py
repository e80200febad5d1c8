"""Laws of TensorBoard's own files: what was logged is read back from them, settings, curves and games alike."""

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("tensorboard")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from wordle_rl.runs.trackers import Tracker, Tracking, open_trackers

TURN = {"guess": "crane", "marks": "GGGGG", "outcome": "scored", "components": {"win": 2.0}}
WON = {"stage": "grpo", "step": 2, "secret": "crane", "won": True, "turns_used": 1, "reward": 2.0, "turns": [TURN]}
LOST = {**WON, "secret": "speed", "won": False, "reward": 0.0, "turns": [{**TURN, "marks": "XXYXX"}]}


def opened(directory: Path, stage: str = "grpo", **more: object) -> Tracker:
    (tracker,) = open_trackers(["tensorboard"], Tracking("first"), stage, directory, **more)
    return tracker


def events(place: Path) -> EventAccumulator:
    """All events of a directory."""
    return EventAccumulator(str(place)).Reload()


@pytest.fixture
def reported(tmp_path, monkeypatch) -> EventAccumulator:
    """What two steps left, the second of which was resumed."""
    monkeypatch.delenv("TENSORBOARD_LOGGING_DIR", raising=False)
    config = {"grpo": {"steps": 2}, "model": {"path": tmp_path / "model"}}
    tracker = opened(tmp_path / "grpo", config=config)
    tracker.log(1, {"reward": 0.25, "validation_loss": 0.75})
    tracker.close()
    tracker = opened(tmp_path / "grpo")
    tracker.log(2, {"reward": 0.5})
    tracker.add_games(2, [WON, LOST])
    tracker.close()
    return events(tmp_path / "grpo" / "tensorboard")


def test_curves_go_on_where_a_training_was_resumed(reported) -> None:
    assert [(event.step, event.value) for event in reported.Scalars("train/reward")] == [(1, 0.25), (2, 0.5)]
    assert [(event.step, event.value) for event in reported.Scalars("eval/loss")] == [(1, 0.75)]


def test_a_named_place_gets_the_files_each_stage_s_apart(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", "~/boards")
    for stage, loss in (("sft", 0.5), ("grpo", 0.25)):
        tracker = opened(tmp_path / stage, stage)
        tracker.log(1, {"loss": loss})
        tracker.close()
        found = events(tmp_path / "home" / "boards" / f"first-{stage}")
        assert [event.value for event in found.Scalars("train/loss")] == [loss]
        assert not (tmp_path / stage).exists()
