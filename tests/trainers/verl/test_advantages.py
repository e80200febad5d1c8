"""Laws of credit under verl: turn and guess credit token for token as in our own trainer, game credit as verl's."""

import asyncio
from collections.abc import Callable

import pytest

pytest.importorskip("verl")

import numpy as np
import torch
from omegaconf import OmegaConf
from scripted import say
from verl.protocol import DataProto
from verl.trainer.ppo.core_algos import compute_gae_advantage_return, compute_grpo_outcome_advantage
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl_games import RecordedServer, make_loop, play_recorded, verl_run

from wordle_rl.rollout import InitialState
from wordle_rl.train.advantages import CREDITS, token_advantages
from wordle_rl.trainers.verl.advantages import ESTIMATORS, credited
from wordle_rl.trainers.verl.agent_loop import WordleAgentLoop
from wordle_rl.trainers.verl.play import run_games

ROW = {"split": "val", "global_steps": 0, "index": 0}
GROUP = 4


@pytest.fixture(scope="module")
def run(tmp_path_factory, word_directory):
    weights = "{ win = 1.0, speed = 0.5, format = 0.3, information = 0.2 }"
    return verl_run(tmp_path_factory.mktemp("verl") / "run", word_directory, rl__reward__weights=weights)


@pytest.fixture(scope="module")
def batch(run):
    """Two groups of games by our rollout, and the same as verl's padded batch."""
    games = run_games(run, str(run / "sft"))
    words = games.context.words.answers

    def replies(number: int, secret: str) -> Callable[[int], str]:
        def reply(turn: int) -> str:
            won = turn == 1 + number % GROUP and number % 3 != 0
            return say(secret if won else "zzzzz" if number == 2 else words[5 + 3 * number + turn])

        return reply

    outputs, ours = [], []
    for number in range(2 * GROUP):
        secret = words[number // GROUP]
        trajectory, completions = play_recorded(games, InitialState(secret), replies(number, secret))
        loop, _ = make_loop(WordleAgentLoop, run, RecordedServer(completions), max_response_length=200)
        outputs.append(asyncio.run(loop.run({"temperature": 1.0}, secret=secret, **ROW)).as_dict())
        ours.append(trajectory)
    pad = torch.nn.utils.rnn.pad_sequence
    padding = torch.zeros(3)  # verl fills a batch up with rows that are masked throughout
    rewards = pad([*(output["rm_scores"] for output in outputs), padding], batch_first=True)
    mask = pad([*(output["response_mask"].float() for output in outputs), padding], batch_first=True)
    index = np.array([f"group {number // GROUP}" for number in range(2 * GROUP)] + ["padding"], dtype=object)
    return games, ours, rewards, mask, index


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("credit", ["turn", "guess", "game"])
def test_every_token_is_credited_as_by_our_own_trainer(batch, credit, scale) -> None:
    games, ours, rewards, mask, index = batch
    found = credited(credit, rewards, mask, index, scale=scale)
    for first in (0, GROUP):
        group = ours[first : first + GROUP]
        values = CREDITS[credit]([games.score(game).turn_rewards for game in group], scale=scale)
        for row, (game, advantages) in enumerate(zip(group, values, strict=True), start=first):
            expected = token_advantages(game.segments[0], advantages)
            assert found[row, : len(expected)].tolist() == pytest.approx(expected, abs=1e-5)
            assert not found[row, len(expected) :].any()
    assert found[-1].tolist() == [0.0] * found.shape[1]
    assert found.abs().max() > 0.1


@pytest.mark.parametrize("scale", [False, True])
def test_verls_own_estimator_gives_game_credit(batch, scale) -> None:
    _, _, rewards, mask, index = batch
    theirs, _ = compute_grpo_outcome_advantage(rewards, mask, index, norm_adv_by_std_in_grpo=scale)
    ours = credited("game", rewards, mask, index, scale=scale)
    assert torch.allclose(theirs[:-1], ours[:-1], atol=1e-4)


def test_a_critic_is_taught_the_reward_of_this_turn_and_of_all_later_ones(batch) -> None:
    _, ours, rewards, mask, _ = batch
    _, returns = compute_gae_advantage_return(rewards, torch.zeros_like(rewards), mask, gamma=1.0, lam=1.0)
    games = batch[0]
    for row, game in enumerate(ours):
        earned = games.score(game).turn_rewards
        for turn, (_, start, stop) in enumerate(game.segments[0].spans):
            assert returns[row, start:stop].tolist() == pytest.approx([sum(earned[turn:])] * (stop - start), abs=1e-5)


@pytest.mark.parametrize("credit", ["turn", "guess"])
def test_verl_finds_the_estimator_by_its_name(batch, credit) -> None:
    _, _, rewards, mask, index = batch
    data = DataProto.from_dict({"token_level_rewards": rewards, "response_mask": mask}, non_tensors={"uid": index})
    config = OmegaConf.create({"norm_adv_by_std_in_grpo": False})
    done = compute_advantage(data, adv_estimator=ESTIMATORS[credit], config=config)
    assert torch.equal(done.batch["advantages"], credited(credit, rewards, mask, index, scale=False))
