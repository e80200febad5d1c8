"""Laws of playing groups: a group shares its start, and games stop where nothing is left to learn."""

import pytest

torch = pytest.importorskip("torch")

from group_games import SETTINGS
from scripted import say
from training_fixtures import compact

from wordle_rl.config import StartSettings
from wordle_rl.env import WordleEnv
from wordle_rl.game import score_guess


def test_a_game_should_stop_once_its_secret_has_ruled_all_answers_out(roll, sixty) -> None:
    should_stop = roll().rollouts._play.should_stop
    num_stopped = 0
    for secret in sixty.outside:
        env, fitting = WordleEnv(secret, sixty, compact(max_turns=6)), [*sixty.answers]
        while fitting and env.stop_reason is None:
            assert not should_stop(secret, env.turns)
            env.step(say(fitting[0]))
            fitting = [word for word in fitting if score_guess(word, fitting[0]) == env.turns[-1].marks]
        num_stopped += not fitting
        assert should_stop(secret, env.turns) == (not fitting)
    assert num_stopped > len(sixty.outside) / 2
    assert not should_stop(sixty.answers[0], ())


def test_a_group_shares_its_secret_and_its_start_and_differs_from_the_next(roll) -> None:
    played = roll(settings=SETTINGS.model_copy(update={"starts": StartSettings(max_prefix_guesses=2)}))
    played()
    starts = [
        (
            game.trajectory.transcript.secret,
            tuple(t.turn.guess for t in game.trajectory.transcript.turns if t.is_prefix),
        )
        for game in played.games[0]
    ]
    groups = [starts[i : i + 4] for i in range(0, 12, 4)]
    assert all(len(set(group)) == 1 for group in groups)
    assert len({group[0][0] for group in groups}) == 3
