"""Faults that other trainers had, by the threads that report them; each test holds that ours does not have them."""

import statistics

import pytest

torch = pytest.importorskip("torch")

from agreement import GROUP, WORDS, embedded_codec, played
from reward_games import SOLVER as SOLVER_OF_REWARDS
from reward_games import play as play_game

from wordle_rl.config import RunConfig, SamplingSettings
from wordle_rl.config.run import setting_names
from wordle_rl.reward import PRESETS, Rubric
from wordle_rl.samplers.drawing import draw
from wordle_rl.solver import Solver
from wordle_rl.train.advantages import game_advantages, is_constant
from wordle_rl.train.games import Scored
from wordle_rl.train.groups import Played
from wordle_rl.train.loss import PolicyLoss, Totals
from wordle_rl.train.scoring import Group

SOLVER = Solver(WORDS, use_cache=False)
WIN = Rubric({"win": 1.0}, keep_order=False)


def test_tokens_of_dead_groups_are_in_no_denominator() -> None:
    """TRL #6367: groups with one reward for all diluted the mean over tokens; without them GSM8K rose by 2.4 points."""
    games = played(embedded_codec())
    groups = []
    for members, rewards in ((games[:GROUP], (1.0, 0.0, 1.0)), (games[GROUP:], (0.0, 0.0, 0.0))):
        values = [(reward,) * len(game.transcript.own_turns) for game, reward in zip(members, rewards, strict=True)]
        credited = game_advantages(values)
        scored = [
            Scored(*of)
            for of in zip(members, [WIN.score(g.transcript, SOLVER) for g in members], credited, strict=True)
        ]
        groups.append(Group(scored, statistics.pstdev(rewards), is_constant(credited)))
    assert [group.is_constant for group in groups] == [False, True]

    def weight(*of: Group) -> float:
        rows = Played(of, {}, {}).rows(embedded_codec())
        counts = [sum(row.loss_mask) for row in rows]
        return PolicyLoss("dapo").token_weights(counts, Totals(sum(counts), len(counts)))[0]

    assert weight(*groups) == weight(groups[0]) > 0


@pytest.mark.parametrize("preset", PRESETS)
def test_silence_earns_no_more_than_a_game_that_was_tried_and_lost(preset: str) -> None:
    """TRL #6427: a sibling that did nothing kept the default reward 0.0, above those that tried and earned -1."""
    silent = play_game("crane", *[""] * 6)
    tried = play_game("crane", "mamma", "fuzzy", "lymph", "civic", "kudzu", "think")
    group = [PRESETS[preset].score(game, SOLVER_OF_REWARDS).turn_rewards for game in (silent, tried)]
    of_silence, of_trying = (sum(values) for values in game_advantages(group))
    assert of_silence <= 0 <= of_trying
    assert of_silence < 0 or set(PRESETS[preset].weights) == {"win", "speed"}, "a purely terminal reward"


def test_a_sampler_that_cuts_the_distribution_shows_in_the_ratio_and_trains_nobody() -> None:
    """TRL #7269: under top_p the mean ratio of training to sampling is the probability mass that was kept, 0.896."""
    logits = torch.linspace(0, 4, 32).repeat(4000, 1)
    generator = torch.Generator().manual_seed(0)
    for top_p in (1.0, 0.8):
        tokens, quoted = draw(logits, SamplingSettings(top_p=top_p), generator)
        whole = logits.log_softmax(-1).gather(1, tokens[:, None])[:, 0]
        kept = logits[0].softmax(-1)[tokens.unique()].sum()
        assert (whole - quoted).exp().mean() == pytest.approx(kept.item(), abs=1e-4)
        assert kept < 0.9 or top_p == 1.0
    assert "top_p" not in {
        name for names in setting_names(RunConfig) for name in names
    }  # training draws from all of it
