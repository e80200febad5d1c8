"""Laws of TensorBoard's own files: what a training reported is read back from them, curve and games alike."""

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("tensorboard")

from contexts import context_for
from grpo_training import SETTINGS
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from training_fixtures import compact, make_run, rows, small_model

from wordle_rl.rl.grpo.train import train_grpo
from wordle_rl.rl.setup import GameSetup
from wordle_rl.runs.trackers import as_markdown
from wordle_rl.solver import Solver


@pytest.fixture(scope="module")
def reported(tokenizer, codec, sixty, split, tmp_path_factory) -> Path:
    """The run of two steps of GRPO that were reported to TensorBoard."""
    run = make_run(tmp_path_factory.mktemp("reported") / "run", sixty)
    setup = GameSetup(context_for(sixty, compact(max_turns=2), Solver(sixty, use_cache=False)), split.train, split.val)
    settings = SETTINGS.model_copy(update={"validate_every_steps": 1, "sample_games": 1})
    train_grpo(small_model(tokenizer), codec, setup, settings, run, report_to=["tensorboard"])
    return run.directory


@pytest.fixture(scope="module")
def events(reported: Path) -> EventAccumulator:
    (file,) = (reported / "grpo" / "tensorboard").rglob("events.out.tfevents.*")
    return EventAccumulator(str(file)).Reload()


def test_the_reward_curve_is_that_of_the_metrics(reported, events) -> None:
    metrics = [row for row in rows(reported / "metrics.jsonl") if row["stage"] == "grpo" and "reward" in row]
    curve = [(event.step, event.value) for event in events.Scalars("train/reward")]
    assert [step for step, _ in curve] == [row["step"] for row in metrics] == [1, 2]
    assert [value for _, value in curve] == pytest.approx([row["reward"] for row in metrics], abs=1e-6)


def test_every_sample_game_is_there_as_text_with_secret_board_and_rewards(reported, events) -> None:
    games = rows(reported / "games.jsonl")
    assert {game["stage"] for game in games} == {"grpo", "validation"}
    for stage in ("grpo", "validation"):
        texts = events.Tensors(f"games/{stage}/text_summary")
        shown = {text.step: text.tensor_proto.string_val[0].decode() for text in texts}
        kept = [game for game in games if game["stage"] == stage]
        assert set(shown) == {game["step"] for game in kept}
        for game in kept:
            text = shown[game["step"]]
            assert as_markdown(game) in text
            assert game["secret"].upper() in text
            assert all(turn["guess"].upper() in text for turn in game["turns"] if turn["guess"])
            if stage == "grpo":
                assert f"reward {game['reward']:.4g}" in text
