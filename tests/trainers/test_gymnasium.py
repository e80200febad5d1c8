"""Laws of `Wordle-v0` under Gymnasium. Opt-in: `make test-trainers`."""

import math
import warnings

import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium.utils.env_checker import check_env
from other_loops import KINDS, SETTINGS, TASK, ours, replies_of

from wordle_rl.trainers.games import game_source, text_of
from wordle_rl.trainers.gymnasium import ENV_ID, WordleTextEnv

pytestmark = [pytest.mark.trainers, pytest.mark.filterwarnings("default")]


def make(**kwargs):
    return gymnasium.make(ENV_ID, settings=SETTINGS, **kwargs)


def test_it_is_registered_and_passes_gymnasiums_own_check() -> None:
    env = make()
    assert isinstance(env.unwrapped, WordleTextEnv)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*Skipping .*render.*")
        check_env(env.unwrapped, skip_render_check=True)


@pytest.mark.parametrize("kind", KINDS)
def test_rewards_and_conversation_are_the_rollouts(kind: str) -> None:
    mine, env = ours(kind), make()
    text, info = env.reset(options=TASK.model_dump())
    assert text == text_of(info["messages"])
    conversation, total, done = list(info["messages"]), 0.0, False
    for reply in replies_of(kind, game_source(SETTINGS)):
        assert not done
        text, reward, terminated, truncated, info = env.step(reply)
        conversation += [{"role": "assistant", "content": reply}, *info["messages"]]
        total, done = total + reward, terminated
        assert not truncated
    assert done
    assert math.isclose(total, mine.reward.total, abs_tol=1e-9)
    assert info["secret"] == mine.trajectory.transcript.secret
    assert info["won"] == mine.trajectory.transcript.won
    said = [message["content"] for message in conversation if message["role"] == "assistant"]
    assert said == [turn.reply for turn in mine.trajectory.transcript.turns]


def test_a_group_of_one_seed_shares_secret_and_prefix_guesses() -> None:
    envs = [make(max_given=2) for _ in range(3)]
    openings = [env.reset(seed=11) for env in envs]
    assert len({text for text, _ in openings}) == 1
    assert len({str(info["task"]) for _, info in openings}) == 1
    later = {str(env.reset()[1]["task"]) for env in envs}
    assert len(later) == 1
    assert later != {str(openings[0][1]["task"])}
