"""Laws of what games of all trainings have in common: their rows, their figures, the longest prompt."""

import pytest
from reward_games import SOLVER, WORDS, play
from training_fixtures import small_model

from wordle_rl.config import ConfigError, SamplingSettings
from wordle_rl.policy.loading import context_budget
from wordle_rl.reward import PRESETS
from wordle_rl.rollout import Trajectory
from wordle_rl.train.scored_games import Scored, measured


def test_games_of_words_outside_the_answers_are_neither_won_nor_lost() -> None:
    games = [
        play("crane", "crane"),
        play("crane", "these", "crane"),
        play("crane", *["these"] * 6),
        play("zzzzz", "zzzzz"),
    ]
    found = measured([Scored(Trajectory(game), PRESETS["sparse"].score(game, SOLVER), ()) for game in games], WORDS)
    assert (found.num_wins, found.means["win_rate"], found.means["mean_guesses"]) == (2, 2 / 3, 1.5)
    by_turn = [name for name in found.means if name.startswith("win_rate_by_turn/")]
    assert [found.means[name] for name in by_turn] == sorted(found.means[name] for name in by_turn)
    assert found.means[by_turn[-1]] == found.means["win_rate"]
    counts = dict.fromkeys(("win_rate", *by_turn), 3)
    assert found.denominators == {**counts, "mean_guesses": 2, "format_compliance": 10}


def test_a_prompt_that_leaves_no_room_for_a_reply_is_refused(tokenizer) -> None:
    model = small_model(tokenizer)
    assert context_budget(model, SamplingSettings(max_completion_tokens=6)) == 1024 - 6
    with pytest.raises(ConfigError, match="max_completion_tokens"):
        context_budget(model, SamplingSettings(max_completion_tokens=1024))
