"""Sampled games, held against plain forward passes over their tokens and against those of another sampler.

Also samplers whose model has a larger vocabulary than its tokenizer, as published ones have.
"""

import math
from collections.abc import Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from training_fixtures import TINY
from transformers import PreTrainedTokenizerBase, Qwen3ForCausalLM

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config.training import SamplingSettings
from wordle_rl.policy.base import Completion, Request, Sampler
from wordle_rl.policy.tiny import make_model
from wordle_rl.rollout import Trajectory
from wordle_rl.train.example import Example
from wordle_rl.train.loss import PolicyLoss

TOLERANCE = 1e-4


@torch.no_grad()
def check_against_plain_forward(model, games: Sequence[Trajectory], temperature: float = 1.0) -> int:
    """Read every segment alone, from the start and without a cache; return how many sampled tokens were checked."""
    checked = 0
    for segment in (segment for game in games for segment in game.segments):
        ids = [*segment.prompt_ids, *segment.token_ids]
        logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float()  # (T, V)
        logprobs = (logits / (temperature or 1.0)).log_softmax(-1)
        for place, (token, sampled, logprob) in enumerate(
            zip(segment.token_ids, segment.loss_mask, segment.sampler_logprobs, strict=True)
        ):
            if sampled:
                before = logprobs[len(segment.prompt_ids) + place - 1]
                assert float(before[token]) == pytest.approx(logprob, abs=TOLERANCE)
                assert temperature or float(before.max() - before[token]) <= TOLERANCE
                checked += 1
    return checked


def check_played_alike(there: Sequence[Trajectory], here: Sequence[Trajectory], tolerance: float = TOLERANCE) -> None:
    """Compare the games of two samplers: transcripts, tokens and masks are equal, log-probabilities nearly so."""
    assert [game.transcript for game in there] == [game.transcript for game in here]
    for mine, theirs in zip(there, here, strict=True):
        for a, b in zip(mine.segments, theirs.segments, strict=True):
            assert (a.prompt_ids, a.token_ids, a.loss_mask) == (b.prompt_ids, b.token_ids, b.loss_mask)
            assert a.sampler_logprobs == pytest.approx(b.sampler_logprobs, abs=tolerance)


PADDING = 60


def padded_model(tokenizer: PreTrainedTokenizerBase, **sizes: int) -> Qwen3ForCausalLM:
    """The embedded model with more ids than its tokenizer, of which it often likes one best."""
    model = make_model(tokenizer, **{**TINY, **sizes})
    model.resize_token_embeddings(len(tokenizer) + PADDING, mean_resizing=False)
    with torch.no_grad():
        head = model.get_output_embeddings().weight
        head[-PADDING:] = 2 * head[:PADDING]
    return model.eval()


def said_by(sampler: Sampler, codec: ChatCodec, count: int = 48) -> list[Completion]:
    """Replies to one prompt; none holds an id that the tokenizer does not know."""
    said = sampler.sample([Request(game, (), (), codec.encode("5x6")) for game in range(count)])
    known = {*codec.tokenizer.get_vocab().values()}
    assert {token for completion in said for token in completion.token_ids} <= known
    assert not any(completion.error for completion in said)
    return said


def check_sampler_is_trainer(learner: Any, codec: ChatCodec, temperature: float) -> None:
    """The log-probabilities of a learner's own sampler are those that it trains with; entropies are numbers."""
    sampling = SamplingSettings(temperature=temperature, max_completion_tokens=10)
    with learner.policy(sampling, 0) as (sampler, _):
        said = said_by(sampler, codec)
    prompt = codec.encode("5x6")
    rows = [
        Example(
            [*prompt, *each.token_ids],
            [0] * len(prompt) + [1] * len(each.token_ids),
            [1.0] * (len(prompt) + len(each.token_ids)),
            [0.0] * len(prompt) + [*each.sampler_logprobs],
        )
        for each in said
    ]
    figures = learner.evaluate([rows], PolicyLoss())
    assert figures["importance_ratio/max"] == pytest.approx(1.0, abs=1e-3)
    assert figures["sampler_kl"] == pytest.approx(0.0, abs=1e-6)
    assert 0 < figures["entropy"] < math.log(len(codec.tokenizer)) + 1e-3
