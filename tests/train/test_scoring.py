"""Laws of scoring a group: turns without a possible answer earn nothing, candidates are compared turn by turn."""

import pytest

torch = pytest.importorskip("torch")

from group_games import SETTINGS, Roll
from grpo_training import outside_fixture  # noqa: F401  # a fixture
from reward_games import WORDS, play
from training_fixtures import compact

from wordle_rl.config import RewardSettings
from wordle_rl.prompt import Shape
from wordle_rl.rollout import Trajectory
from wordle_rl.train.scored_games import PlayedGame, num_live_turns, score_group


def test_turns_after_the_last_possible_answer_teach_nothing(outside) -> None:
    # No answer does without e, so `crane` leaves none; without m and a there are some, until a z is proved.
    games = [("mamma", "fuzzy", "crane"), ("crane", "mamma", "fuzzy"), ("these", "crane"), ("mamma", "these", "crane")]
    group = [Trajectory(play("zzzzz", *words, budget=True)) for words in games]
    rubric = outside.rollouts.schedule.rubric()
    scored = score_group([PlayedGame(game) for game in group], rubric, outside.setup, outside.settings)
    assert [num_live_turns(trajectory.transcript, outside.setup) for trajectory in group] == [2, 1, 1, 2]
    for game, live in zip(scored.games, [2, 1, 1, 2], strict=True):
        assert all(value == 0.0 for value in game.advantages[live:])
        assert all(value != 0.0 for value in game.advantages[:live])
    first = [game.advantages[0] for game in scored.games]
    assert sum(first) == pytest.approx(0.0)
    assert first[0] == first[3] != first[1]


@pytest.mark.parametrize("shape", Shape)
def test_candidates_of_a_turn_are_credited_above_their_mean(shape, tokenizer, codec, tmp_path) -> None:
    reward = RewardSettings(preset="shaped")  # candidates are judged by it, and it pays by what is said here
    settings = SETTINGS.model_copy(update={"turn_candidates": 2, "credit": "guess", "reward": reward})
    pay = lambda _, turn: len(turn.reply) % 5  # noqa: E731
    played = Roll(tokenizer, codec, WORDS, tmp_path, settings, compact(shape, max_turns=3), pay=pay)
    found = played()
    games = played.games[0]
    assert len(games) == 3 * 2
    for game in games:
        values = list(game.advantages)
        assert len(values) == 2 * len(game.trajectory.transcript.turns) == len(game.trajectory.segments)
        assert all(a + b == pytest.approx(0.0) for a, b in zip(values[::2], values[1::2], strict=True))
    assert len(found) == sum(len(game.advantages) for game in games)
    credited = [{value for value, m in zip(row.advantages, row.loss_mask, strict=True) if m} for row in found]
    assert credited == [{value} for game in games for value in game.advantages]
    assert max(value for game in games for value in game.advantages) > 0.1
