"""Laws of sampling on MLX: exact tokens, full log-probabilities, caches that change nothing."""

from itertools import count

import pytest

pytest.importorskip("mlx")

import mlx.core as mx
import numpy as np
from mlx_models import pair
from sampled_games import check_against_plain_forward, check_played_alike
from training_fixtures import compact

from wordle_rl.boards import InitialState
from wordle_rl.config.training import SamplingSettings
from wordle_rl.mlx import sampler as sampler_module
from wordle_rl.mlx.sampler import MLXSampler, distribution
from wordle_rl.policy.base import Request
from wordle_rl.policy.constrain import make_constraint
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.prompt import Shape
from wordle_rl.rollout import play
from wordle_rl.train.turn_candidates import play_branching


@pytest.fixture(scope="module")
def both(tokenizer):
    return pair(tokenizer)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("shape", Shape)
def test_logprobs_are_those_of_all_tokens_over_all_turns(both, codec, sixty, shape, temperature) -> None:
    whole, model = both
    sampler = MLXSampler(model, codec, SamplingSettings(temperature=temperature, max_completion_tokens=8), 1)
    games = play([InitialState(word) for word in sixty.answers[:5]], sixty, compact(shape, max_turns=3), sampler)
    assert check_against_plain_forward(whole, games, temperature) > 5 * 3
    assert all(len(game.transcript.own_turns) == 3 for game in games)


def test_the_token_that_ends_a_turn_is_kept_and_a_cut_reply_is_overlong(both, codec, sixty) -> None:
    _, model = both
    request = Request(0, (), (), codec.encode("salet"))
    seen = set()
    for seed in range(12):
        [reply] = MLXSampler(model, codec, SamplingSettings(max_completion_tokens=40), seed).sample([request])
        seen.add(reply.overlong)
        assert reply.overlong == (reply.token_ids[-1] not in codec.stop_ids)
        assert not set(reply.token_ids[:-1]) & codec.stop_ids
        assert len(reply.token_ids) == len(reply.sampler_logprobs) <= 40
        assert reply.overlong <= (len(reply.token_ids) == 40)
    assert seen == {True, False}


def test_greedy_games_are_those_of_transformers(both, codec, sixty) -> None:
    whole, model = both
    settings = SamplingSettings(temperature=0, max_completion_tokens=8)
    starts = [InitialState(word) for word in sixty.answers[:3]]
    ours, theirs = (
        play(starts, sixty, compact(max_turns=3), each)
        for each in (MLXSampler(model, codec, settings), TransformersSampler(whole, codec, settings))
    )
    check_played_alike(ours, theirs)


def test_a_cache_reads_every_token_once(both, codec, sixty, monkeypatch) -> None:
    _, model = both
    read = []

    class Counting(sampler_module.BatchGenerator):
        def insert(self, prompts, **named):
            read.append([len(prompt) for prompt in prompts])
            return super().insert(prompts, **named)

    monkeypatch.setattr(sampler_module, "BatchGenerator", Counting)
    sampler = MLXSampler(model, codec, SamplingSettings(max_completion_tokens=6))
    [game] = play([InitialState(sixty.answers[0])], sixty, compact(max_turns=3), sampler)
    [segment] = game.segments
    own = sum(segment.loss_mask)
    assert sum(map(sum, read)) == len(segment.prompt_ids) + len(segment.token_ids) - own
    assert len(read) == 3


def test_games_that_begin_alike_read_the_beginning_once(both, codec, sixty, monkeypatch) -> None:
    _, model = both
    monkeypatch.setattr(sampler_module, "_WORTH_A_PASS", 4)
    shared = MLXSampler(model, codec, SamplingSettings(temperature=0, max_completion_tokens=6))
    starts = [InitialState(word) for word in sixty.answers[:4]]
    together = play(starts, sixty, compact(max_turns=2), shared)
    monkeypatch.setattr(sampler_module, "_WORTH_A_PASS", 10_000)
    apart = play(starts, sixty, compact(max_turns=2), MLXSampler(model, codec, shared.settings))
    check_played_alike(together, apart, tolerance=1e-5)


def test_candidates_of_a_turn_share_what_was_played(both, codec, sixty) -> None:
    whole, model = both
    sampler, values = MLXSampler(model, codec, SamplingSettings(max_completion_tokens=8), 2), count()
    starts, judge = [InitialState(word) for word in sixty.answers[:3]], lambda *_: float(next(values) % 3)
    games = play_branching(starts, sixty, compact(max_turns=3), sampler, 2, judge)
    assert check_against_plain_forward(whole, [game for game, _ in games]) > 3 * 3


def test_limited_guesses_are_listed_words(both, codec, sixty) -> None:
    _, model = both
    prompter = compact(max_turns=2)
    constraint = make_constraint(sixty, prompter, codec)
    sampler = MLXSampler(model, codec, SamplingSettings(max_completion_tokens=60), 0, constraint)
    games = play([InitialState(word) for word in sixty.answers[:6]], sixty, prompter, sampler)
    guesses = [turn.turn.guess for game in games for turn in game.transcript.turns if "<guess>" in turn.reply]
    assert guesses
    assert all(guess in sixty.guesses for guess in guesses if guess is not None)


def test_a_temperature_flattens_the_distribution() -> None:
    logprobs = mx.log(mx.array([[0.1, 0.5, 0.25, 0.15]]))
    warm = np.exp(np.array(distribution(logprobs, SamplingSettings(temperature=2.0))))
    roots = np.sqrt([0.1, 0.5, 0.25, 0.15])
    assert warm == pytest.approx((roots / roots.sum())[None], abs=1e-6)


def test_weights_that_are_lost_are_reported(tokenizer, codec) -> None:
    _, model = pair(tokenizer)
    model.network.model.norm.weight = mx.full(model.network.model.norm.weight.shape, float("nan"))
    with pytest.raises(RuntimeError, match="the weights are lost"):
        MLXSampler(model, codec, SamplingSettings(max_completion_tokens=3)).sample([Request(0, (), (), [5, 6])])
