"""Faults that other trainers had, by the threads that report them; each test holds that ours does not have them."""

import itertools
import statistics

import pytest

torch = pytest.importorskip("torch")

from agreement import GROUP, WORDS, embedded_codec, played, prompter
from contexts import context_for
from reward_games import SOLVER as SOLVER_OF_REWARDS
from reward_games import play as play_game
from scripted import scripted

from wordle_rl.config import GRPOTraining, SamplingSettings, StartSettings
from wordle_rl.data.dataset import Example
from wordle_rl.policy.transformers import draw
from wordle_rl.reward import PRESETS, Rubric
from wordle_rl.rollout import InitialState, Trajectory, play
from wordle_rl.solver import Solver
from wordle_rl.train.advantages import game_advantages, is_constant, turn_advantages
from wordle_rl.train.grpo_rollouts import Played
from wordle_rl.train.loss import PolicyLoss, Totals
from wordle_rl.train.scored_games import Group, Scored, rows_of, score_group
from wordle_rl.train.starts import GameSetup, GroupStarts

SOLVER = Solver(WORDS)
WIN = Rubric({"win": 1.0}, keep_order=False)


def setup() -> GameSetup:
    return GameSetup(context_for(WORDS, prompter(), SOLVER), WORDS.answers)


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


def test_a_game_without_a_single_action_shifts_no_baseline() -> None:
    """OpenRLHF #1239: a sample without actions stood in its group's mean, and a good one got -49.5."""
    games = [play_game("crane", "crane"), play_game("crane", "mamma", "crane")]
    group = [
        *map(Trajectory, games),
        Trajectory(play_game("crane"), error="no reply"),
    ]
    settings = GRPOTraining(credit="game")
    rubric = Rubric({"win": 100.0, "speed": 1.0}, keep_order=False)
    with_it, without = (score_group(each, rubric, setup(), settings) for each in (group, group[:2]))
    assert [game.advantages for game in with_it.games] == [game.advantages for game in without.games]
    assert len(with_it.games) == 2


def test_the_sampler_draws_from_the_whole_distribution() -> None:
    """TRL #7269: under top_p the mean ratio of training to sampling is the probability mass that was kept, 0.896."""
    logits = torch.linspace(0, 4, 32).repeat(4000, 1)
    generator = torch.Generator().manual_seed(0)
    tokens, quoted = draw(logits, SamplingSettings(), generator)
    whole = logits.log_softmax(-1).gather(1, tokens[:, None])[:, 0]
    assert len(tokens.unique()) == 32
    assert (whole - quoted).exp().mean() == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("scale", [False, True])
def test_the_one_game_that_differs_from_its_group_is_kept(scale: bool) -> None:
    """NeMo-RL #4158: seven peers with 0.95 have no spread, so leave-one-out dropped the one with 0, or blew it up."""
    odd, *others = game_advantages([(0.0,), *[(0.95,)] * 7], scale=scale)
    assert not is_constant([odd, *others])
    assert odd[0] == pytest.approx(-sum(value for (value,) in others))
    assert -3 < odd[0] < 0 < others[0][0]


def test_replies_that_stand_in_the_prompt_are_not_trained_on() -> None:
    """NeMo-RL #2176: assistant turns of the prompt were taken for the policy's own."""
    replies = ("crate", "crane")
    sampler = scripted(lambda _, turns: f"<guess>{replies[len(turns) - 1]}</guess>")(None, embedded_codec())
    [game] = play([InitialState("crane", ("speed",))], WORDS, prompter(), sampler)
    scored = Scored(game, WIN.score(game.transcript, SOLVER), (1.0,) * len(game.transcript.own_turns))
    [row] = rows_of(scored, embedded_codec())
    trained = [token for token, is_trained in zip(row.token_ids, row.loss_mask, strict=True) if is_trained]
    assert embedded_codec().text_of(row.token_ids).count("<guess>") == 3
    assert trained == [token for word in replies for token in embedded_codec().reply_ids(f"<guess>{word}</guess>")]
    assert all(advantage == 0 or masked for advantage, masked in zip(row.advantages, row.loss_mask, strict=True))


def test_a_resumed_training_draws_the_secrets_that_come_next() -> None:
    """prime-rl #3164: after a resume the tasks began again from the top of the same permutation."""
    whole, resumed = (GroupStarts(setup(), StartSettings(), seed=0) for _ in range(2))
    drawn = [whole.draw(4, step) for step in range(6)]
    resumed.picker.load_state(whole.picker.state())
    assert [resumed.draw(4, step) for step in (3, 4, 5)] == drawn[3:]
    assert drawn[3:] != drawn[:3]


def test_taking_another_turn_has_no_hidden_price() -> None:
    """verl #7244: one baseline term for each turn played charges E[later rewards] for every further turn.

    A game goes on with probability p, and its second turn earns 0.5. Counted out over all groups of three, the gradient
    of going on is p (1 - p) 0.5 for each game, times 1 - 1/3 for a baseline that holds the game itself.
    """
    group_size, p = 3, 0.3
    ours = of_the_thread = 0.0
    for goes_on in itertools.product((False, True), repeat=group_size):
        chance = p ** sum(goes_on) * (1 - p) ** (group_size - sum(goes_on))
        advantages = turn_advantages([(0.0, 0.5) if on else (0.0,) for on in goes_on])
        for on, advantage in zip(goes_on, advantages, strict=True):
            score = 1 - p if on else -p  # the gradient of the log-probability of this choice
            ours += chance * score * advantage[0]
            of_the_thread += chance * score * (0.5 - 0.5 if on else 0.0)  # each turn's reward above that turn's mean
    assert ours == pytest.approx(group_size * p * (1 - p) * 0.5 * (1 - 1 / group_size))
    assert of_the_thread == 0, "as if going on were worth nothing"


def test_examples_carry_no_mask_beyond_their_tokens() -> None:
    """TRL #5144: the mask was longer than the completion."""
    for game in played(embedded_codec()):
        for row in rows_of(
            Scored(game, WIN.score(game.transcript, SOLVER), (1.0,) * len(game.transcript.own_turns)), embedded_codec()
        ):
            assert isinstance(row, Example)
            assert len(row.token_ids) == len(row.loss_mask) == len(row.advantages) == len(row.sampler_logprobs)
