"""Laws of requests to an endpoint: what may pass is tried again, what cannot is not, and a wait may end them all."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

pytest.importorskip("openai")

from fake_endpoint import KEY, FakeEndpoint, chat

from wordle_rl.policy.endpoint.client import EndpointClient, RequestFailedError
from wordle_rl.policy.endpoint.providers import Endpoint
from wordle_rl.policy.endpoint.responses import read_answer

MESSAGES = [{"role": "user", "content": "a game"}]


def ask(
    endpoint: FakeEndpoint, *, max_retries: int = 2, wait: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> str:
    """The text of one reply."""

    async def once() -> str:
        async with EndpointClient(
            Endpoint(endpoint.url, "OPENAI_API_KEY", KEY),
            model="m",
            max_completion_tokens=9,
            temperature=None,
            top_p=None,
            timeout_s=5.0,
            max_retries=max_retries,
            wait=wait,
        ) as client:
            return await client.ask(MESSAGES, lambda answer: read_answer(answer).text)

    return asyncio.run(once())


def test_every_try_waits_its_turn_and_for_as_long_as_the_server_asks(serve) -> None:
    paused: list[float] = []

    async def wait(seconds: float) -> None:
        paused.append(seconds)
        await asyncio.sleep(seconds)

    endpoint = serve(lambda number, _: (429, {}, {"Retry-After": "0.05"}) if number == 0 else chat("ok"))
    assert ask(endpoint, wait=wait) == "ok"
    assert paused[0] == 0.0
    assert 0.05 <= paused[1] < 0.06
    assert len(endpoint.requests) == 2


def test_what_a_wait_raises_ends_the_request(serve) -> None:
    async def over(seconds: float) -> None:
        raise KeyError("over")

    endpoint = serve(lambda *_: chat("ok"))
    with pytest.raises(KeyError, match="over"):
        ask(endpoint, wait=over)
    assert not endpoint.requests


@pytest.mark.parametrize(
    ("status", "code", "tries"),
    [(400, None, 1), (401, None, 1), (404, None, 1), (429, "insufficient_quota", 1), (429, None, 3), (503, None, 3)],
)
def test_a_refusal_is_tried_again_only_where_that_may_help(
    status: int, code: str | None, tries: int, serve, monkeypatch
) -> None:
    monkeypatch.setattr("wordle_rl.policy.endpoint.retry.FIRST_PAUSE_S", 0.01)
    endpoint = serve(lambda *_: (status, {"error": {"message": f"no\n{KEY}", "code": code, "param": "top_p"}}))
    with pytest.raises(RequestFailedError) as caught:
        ask(endpoint)
    failed = caught.value
    assert (failed.status, failed.code, failed.param, len(endpoint.requests)) == (status, code, "top_p", tries)
    assert "(key)" in str(failed)
    assert KEY not in repr(failed)
    assert "\n" not in str(failed)
