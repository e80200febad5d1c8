"""Laws of the estimate of a run's duration: it names the stages that are ahead, and changes nothing."""

import pytest

torch = pytest.importorskip("torch")

from training_fixtures import write_config

from wordle_rl.config import load_config
from wordle_rl.config.context import GameContext
from wordle_rl.pipeline.duration import estimate_seconds
from wordle_rl.preflight.before_run import Todo


def test_every_stage_ahead_is_estimated_and_no_random_stream_moves(word_directory, tmp_path) -> None:
    config = load_config(write_config(tmp_path / "mini.toml", word_directory))
    context = GameContext.of(config)
    before = torch.random.get_rng_state()
    whole = estimate_seconds(config, context, Todo(traces=True, sft=True, play=True, evaluate=True))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert list(whole) == ["teacher games", "SFT", "GRPO", "evaluation"]
    assert all(seconds > 0 for seconds in whole.values())
    rest = estimate_seconds(config, context, Todo(traces=False, sft=False, play=True, evaluate=False))
    assert list(rest) == ["GRPO"]


def test_twice_the_games_take_about_twice_as_long(word_directory, tmp_path) -> None:
    """The timed seconds vary; only what they are multiplied by is exact, so the bounds are wide."""
    few, many = (
        load_config(write_config(tmp_path / f"{games}.toml", word_directory, traces__num_games=str(games)))
        for games in (1_000, 8_000)
    )
    todo = Todo(traces=True, sft=True, play=False, evaluate=False)
    seconds = [sum(estimate_seconds(config, GameContext.of(config), todo).values()) for config in (few, many)]
    assert 2 < seconds[1] / seconds[0] < 32


def test_a_model_from_elsewhere_is_not_loaded_for_an_estimate(word_directory, tmp_path) -> None:
    config = load_config(write_config(tmp_path / "mini.toml", word_directory, model__path='"nowhere"'))
    assert estimate_seconds(config, GameContext.of(config), Todo(True, True, True, True)) == {}
