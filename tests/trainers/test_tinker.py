"""Laws of games under Tinker's cookbook: its rollout, its training data. Opt-in: `make test-trainers`."""

import asyncio
import math
import pickle

import pytest

pytest.importorskip("tinker_cookbook")

from chat_families import family_tokenizer
from other_loops import KINDS, SETTINGS, TASK, ours, replies_of
from tinker_cookbook.completers import TokenCompleter, TokensWithLogprobs
from tinker_cookbook.rl.data_processing import trajectory_to_data
from tinker_cookbook.rl.rollouts import do_group_rollout, do_single_rollout

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.trainers.games import game_source
from wordle_rl.trainers.tinker import WordleGroupBuilder

pytestmark = [pytest.mark.trainers, pytest.mark.filterwarnings("default")]


class Told(TokenCompleter):
    """Says a list of completions, whatever the prompt; keeps the stop conditions."""

    def __init__(self, completions: list[list[int]]) -> None:
        self.left, self.stops = list(completions), []

    async def __call__(self, model_input, stop, *, max_tokens=None) -> TokensWithLogprobs:
        self.stops.append(stop)
        tokens = self.left.pop(0)
        return TokensWithLogprobs(tokens=tokens, maybe_logprobs=[-1.0] * len(tokens))


@pytest.fixture(scope="module")
def codec() -> ChatCodec:
    return ChatCodec(family_tokenizer("qwen3"))


def builder(codec: ChatCodec, group_size: int = 1) -> WordleGroupBuilder:
    return WordleGroupBuilder(TASK, codec, group_size, SETTINGS)


def completions(codec: ChatCodec, kind: str) -> list[list[int]]:
    return [codec.reply_ids(reply) for reply in replies_of(kind, game_source(SETTINGS))]


@pytest.mark.parametrize("kind", KINDS)
def test_the_training_datum_has_the_rollouts_tokens_mask_and_reward(codec: ChatCodec, kind: str) -> None:
    async def play():
        (env,) = await builder(codec).make_envs()
        policy = Told(completions(codec, kind))
        return await do_single_rollout(policy, env), policy

    trajectory, policy = asyncio.run(play())
    mine = ours(kind, codec=codec)
    (datum,) = trajectory_to_data(trajectory, traj_advantage=1.0)
    inputs = [token for chunk in datum.model_input.chunks for token in chunk.tokens]
    assert inputs == mine.ids[:-1]
    assert datum.loss_fn_inputs["target_tokens"].data == mine.ids[1:]
    assert datum.loss_fn_inputs["mask"].data == mine.mask[1:]
    total = math.fsum(transition.reward for transition in trajectory.transitions)
    assert math.isclose(total, mine.reward.total, abs_tol=1e-9)
    assert trajectory.transitions[-1].metrics["won"] == float(kind == "won")
    assert policy.stops == [sorted(codec.stop_ids)] * len(trajectory.transitions)


def test_a_group_shares_secret_and_prefix_guesses_in_another_process_too(codec: ChatCodec) -> None:
    async def play():
        group = pickle.loads(pickle.dumps(builder(codec, 3)))
        told = Told(completions(codec, "won")[-1:] * 3)
        return await do_group_rollout(group, told), await group.make_envs()

    played, envs = asyncio.run(play())
    assert [trajectory.transitions[0].metrics["won"] for trajectory in played.trajectories_G] == [1.0] * 3
    openings = [asyncio.run(env.initial_observation())[0].to_ints() for env in envs]
    assert openings[0] == openings[1] == openings[2]
