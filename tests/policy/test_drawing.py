"""Laws of drawing a token: what may be drawn, how often, and the probability that is noted."""

import pytest

pytest.importorskip("torch")

import torch
from transformers import PreTrainedModel

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.config import SamplingSettings
from wordle_rl.policy.base import Request
from wordle_rl.policy.transformers import TransformersSampler, pick


def test_a_draw_is_scored_by_the_temperature_it_was_made_at(tiny_model: PreTrainedModel, codec: ChatCodec) -> None:
    prompt = codec.encode("5x6")
    settings = SamplingSettings(temperature=1.5, max_completion_tokens=1)
    sampler = TransformersSampler(tiny_model, codec, settings)
    drawn = sampler.sample([Request(i, (), (), prompt) for i in range(20)])
    with torch.no_grad():
        logits = tiny_model(input_ids=torch.tensor([prompt])).logits[0, -1].float()
    exact = (logits / 1.5).log_softmax(-1)
    assert len({done.token_ids[0] for done in drawn}) > 1
    for done in drawn:
        assert done.sampler_logprobs[0] == pytest.approx(float(exact[done.token_ids[0]]), abs=1e-4)


def test_what_cannot_be_is_never_drawn() -> None:
    probabilities = torch.tensor([[0.0, 0.25, 0.0, 0.75, 0.0], [0.0, 0.0, 0.0, 0.0, 1e-30]]).repeat(2000, 1)
    drawn = pick(probabilities, torch.Generator().manual_seed(0)).view(-1, 2)
    assert set(drawn[:, 0].tolist()) == {1, 3}
    assert set(drawn[:, 1].tolist()) == {4}
    assert 0.2 < float((drawn[:, 0] == 1).float().mean()) < 0.3
