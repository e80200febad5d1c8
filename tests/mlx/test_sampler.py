"""Laws of sampling on MLX: exact tokens, full log-probabilities, caches that change nothing."""

from itertools import count

import pytest

pytest.importorskip("mlx")

import mlx.core as mx
import numpy as np
import torch
from mlx_models import pair
from training_fixtures import compact

from wordle_rl.config import SamplingSettings
from wordle_rl.mlx import sampler as sampler_module
from wordle_rl.mlx.sampler import MLXSampler, distribution
from wordle_rl.policy.base import Request
from wordle_rl.policy.constrain import make_constraint
from wordle_rl.policy.transformers import TransformersSampler
from wordle_rl.prompt import Shape
from wordle_rl.rollout import InitialState, play
from wordle_rl.train.turn_candidates import play_branching


@pytest.fixture(scope="module")
def both(tokenizer):
    return pair(tokenizer)


def scored(whole, segments, temperature: float = 1.0) -> list[float]:
    """Log-probabilities of the sampled tokens by transformers, each sequence read at once and without a cache."""
    found = []
    for segment in segments:
        ids = torch.tensor([[*segment.prompt_ids, *segment.token_ids]])
        with torch.no_grad():
            logprobs = (whole(input_ids=ids).logits[0, :-1] / temperature).log_softmax(-1)
        first = len(segment.prompt_ids)
        found += [
            float(logprobs[first + place - 1, token])
            for place, (token, m) in enumerate(zip(segment.token_ids, segment.loss_mask, strict=True))
            if m
        ]
    return found


def stored(segments) -> list[float]:
    return [
        logprob
        for segment in segments
        for logprob, m in zip(segment.sampler_logprobs, segment.loss_mask, strict=True)
        if m
    ]


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("shape", Shape)
def test_logprobs_are_those_of_all_tokens_over_all_turns(both, codec, sixty, shape, temperature) -> None:
    whole, model = both
    sampler = MLXSampler(model, codec, SamplingSettings(temperature=temperature, max_completion_tokens=8), 1)
    games = play([InitialState(word) for word in sixty.answers[:5]], sixty, compact(shape, max_turns=3), sampler)
    for game in games:
        assert stored(game.segments) == pytest.approx(scored(whole, game.segments, temperature), abs=1e-4)
        assert len(game.transcript.own_turns) == 3


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
    """Three turns, with clear choices: the weights are large."""
    whole, model = both
    settings = SamplingSettings(temperature=0, max_completion_tokens=8)
    starts = [InitialState(word) for word in sixty.answers[:3]]
    ours, theirs = (
        play(starts, sixty, compact(max_turns=3), each)
        for each in (MLXSampler(model, codec, settings), TransformersSampler(whole, codec, settings))
    )
    assert [game.segments[0].token_ids for game in ours] == [game.segments[0].token_ids for game in theirs]


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
    assert [stored(game.segments) for game in together] == [
        pytest.approx(stored(game.segments), abs=1e-5) for game in apart
    ]


def test_candidates_of_a_turn_share_what_was_played(both, codec, sixty) -> None:
    whole, model = both
    sampler, values = MLXSampler(model, codec, SamplingSettings(max_completion_tokens=8), 2), count()
    games = play_branching(
        [InitialState(word) for word in sixty.answers[:3]], sixty, compact(max_turns=3), sampler, 2,
        lambda *_: float(next(values) % 3),
    )  # fmt: skip
    for game, _ in games:
        segments = game.segments
        assert stored(segments) == pytest.approx(scored(whole, segments), abs=1e-4)


def test_limited_guesses_are_listed_words(both, codec, sixty) -> None:
    _, model = both
    prompter = compact(max_turns=2)
    sampler = MLXSampler(
        model, codec, SamplingSettings(max_completion_tokens=60), 0, make_constraint(sixty, prompter, codec)
    )
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
