"""Sampled games, held against plain forward passes over their tokens and against those of another sampler."""

from collections.abc import Sequence

import pytest
import torch

from wordle_rl.rollout import Trajectory

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
