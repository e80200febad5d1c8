"""Samplers some of whose requests fail, as those of a player elsewhere do."""

from collections.abc import Callable

import pytest

from wordle_rl.policy.base import Completion, Request

REASON = "APIConnectionError: the server is gone"


def fail(monkeypatch: pytest.MonkeyPatch, fails: Callable[[Request], bool]) -> list[Request]:
    """Have the sampler of this machine fail the requests for which `fails` is true, and return those it failed."""
    from wordle_rl.policy.transformers import TransformersSampler

    sample, failed = TransformersSampler.sample, []

    def failing(self, requests: list[Request]) -> list[Completion]:
        found = []
        for request, completion in zip(requests, sample(self, requests), strict=True):
            if fails(request):
                failed.append(request)
                completion = Completion("", error=REASON)
            found.append(completion)
        return found

    monkeypatch.setattr(TransformersSampler, "sample", failing)
    return failed
