"""Laws of games that a remote player fails in: they are no samples, have no reward, and enter no baseline."""

import statistics

import pytest

torch = pytest.importorskip("torch")

from failing_games import REASON, fail
from group_games import SETTINGS, Roll
from grpo_training import outside_fixture, roll_fixture, train_fixture  # noqa: F401  # fixtures
from reward_games import WORDS
from training_fixtures import compact

from wordle_rl.prompt import Shape
from wordle_rl.runs import RunError


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize("candidates", [1, 2])
def test_a_step_trains_on_what_was_sampled_and_on_nothing_of_a_failed_game(
    shape, candidates, tokenizer, codec, tmp_path, monkeypatch
) -> None:
    """Three groups of four places; requests of the first group's second game fail, in its second turn."""
    changes = {"turn_candidates": candidates, "credit": "guess"} if candidates > 1 else {}
    roll = Roll(tokenizer, codec, WORDS, tmp_path, SETTINGS.model_copy(update=changes), compact(shape, max_turns=3))
    failed = fail(monkeypatch, lambda request: request.game_id // candidates == 1 and len(request.turns) == 1)
    found = roll()
    games = roll.games[0]
    assert len(found) == sum(len(game.trajectory.segments) for game in games)
    assert len(failed) == candidates
    assert len(games) == 12 // candidates - 1
    assert all(game.trajectory.error is None for game in games)
    tokens = sum(sum(segment.loss_mask) for game in games for segment in game.trajectory.segments)
    assert sum(sum(row.loss_mask) for row in found) == tokens
    mean = statistics.fmean(game.reward.total for game in games)
    assert roll.metrics["reward"] == pytest.approx(mean)
    assert roll.metrics["failed_games"] == 1


def test_a_step_without_a_game_is_an_error_and_no_step(tokenizer, codec, tmp_path, monkeypatch) -> None:
    fail(monkeypatch, lambda _: True)
    roll = Roll(tokenizer, codec, WORDS, tmp_path)
    with pytest.raises(RunError, match=REASON):
        roll()


def test_candidates_that_fail_are_left_out_of_their_turns_mean(tokenizer, codec, tmp_path, monkeypatch) -> None:
    settings = SETTINGS.model_copy(update={"turn_candidates": 4, "credit": "guess"})
    roll = Roll(tokenizer, codec, WORDS, tmp_path, settings, compact(max_turns=3))
    fail(monkeypatch, lambda request: request.game_id % 4 == 2)
    roll()
    for game in roll.games[0]:
        turns = len(game.trajectory.transcript.turns)
        assert len(game.trajectory.segments) == len(game.advantages) == 3 * turns
        assert all(sum(game.advantages[3 * turn : 3 * turn + 3]) == pytest.approx(0.0) for turn in range(turns))
        assert [segment.spans[0][0] for segment in game.trajectory.segments] == list(range(3 * turns))


def test_a_failed_probe_sets_no_priority(roll, monkeypatch) -> None:
    changes = {"probe_every_steps": 1, "prioritized_fraction": 1.0}
    made = roll(settings=SETTINGS.model_copy(update=changes))
    unlucky = made.setup.secrets[3]
    fail(monkeypatch, lambda request: request.game_id == 3)
    made.rollouts._probe(0, made.open_policy)
    assert set(made.rollouts.starts.picker.state()) == {*made.setup.secrets} - {unlucky}
