"""Laws of OpenAI-compatible endpoints, against a small server on this machine: trouble is an error, never a loss."""

import asyncio
import time
from pathlib import Path

import pytest

pytest.importorskip("openai")

from fake_endpoint import KEY, Answer, FakeEndpoint, chat
from openai.types.chat import ChatCompletion

from wordle_rl.config.base import ConfigError
from wordle_rl.config.evaluation import PatienceSettings
from wordle_rl.config.training import SamplingSettings
from wordle_rl.policy.base import Request
from wordle_rl.policy.openai import (
    EndpointClient,
    OpenAISampler,
    RequestFailedError,
    Said,
    as_reply,
    read_answer,
)
from wordle_rl.policy.providers import Endpoint, find_endpoint
from wordle_rl.policy.vllm_server import NEUTRAL_SAMPLING
from wordle_rl.prompt import Thinking


def sampler(
    endpoint: FakeEndpoint,
    sampling: SamplingSettings = SamplingSettings(),  # noqa: B008  # it is frozen
    concurrency: int = 16,
    **options: object,
) -> OpenAISampler:
    found, patience = find_endpoint(endpoint.url, Path("nowhere")), PatienceSettings(concurrency=concurrency)
    return OpenAISampler(found, "m", sampling, patience, max_retries=1, **options)


def requests(count: int = 1) -> list[Request]:
    return [Request(i, ({"role": "user", "content": f"game {i}"},), ()) for i in range(count)]


def test_replies_come_back_in_the_order_asked_and_no_more_are_under_way_than_allowed(serve) -> None:
    def echo(number: int, body: dict) -> Answer:
        time.sleep(0.03 + 0.02 * (number % 3))
        return chat(f"re: {body['messages'][-1]['content']}")

    endpoint = serve(echo)
    completions = sampler(endpoint, concurrency=3).sample(requests(12))
    assert [c.text for c in completions] == [f"re: game {i}" for i in range(12)]
    assert not any(c.error or c.overlong for c in completions)
    assert 2 <= endpoint.busiest <= 3


@pytest.mark.parametrize(
    ("owner", "temperature", "further"),
    [
        ("vllm", 0.3, ["top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty"]),
        ("vllm", None, []),
        ("someone", 0.3, []),
        (None, 0.3, []),
    ],
)
def test_a_vllm_server_is_told_all_of_the_sampling_and_others_what_openai_has(
    owner, temperature, further, serve
) -> None:
    endpoint = serve(lambda *_: chat("hello"))
    endpoint.models = [] if owner is None else [{"id": "m", "owned_by": owner}]
    is_own = temperature is None
    sampling = SamplingSettings(temperature=temperature or 0.0, max_completion_tokens=77)
    player = sampler(endpoint, sampling, endpoint_default_sampling=is_own)
    player.sample(requests())
    [body] = endpoint.requests
    usual = [] if is_own else ["temperature", "top_p"]
    assert {*body} == {"model", "max_tokens", "messages", *usual, *further}
    assert (body["model"], body["max_tokens"], body["messages"]) == ("m", 77, [*requests()[0].messages])
    assert [body[name] for name in usual] == [temperature, 1.0][: len(usual)]
    assert endpoint.headers[0]["authorization"] == f"Bearer {KEY}"
    assert {name: body[name] for name in further} == {name: NEUTRAL_SAMPLING[name] for name in further}
    assert ("endpoint's own" in player.whose_sampling) == (not further)


def test_a_temperature_that_a_vllm_server_would_raise_is_refused(serve) -> None:
    endpoint = serve(lambda *_: chat("hello"))
    endpoint.models = [{"id": "m", "owned_by": "vllm"}]
    with pytest.raises(ConfigError, match="temperature"):
        sampler(endpoint, SamplingSettings(temperature=0.001))
    endpoint.models = []
    assert sampler(endpoint, SamplingSettings(temperature=0.001)).sample(requests())[0].text == "hello"


def test_a_model_that_takes_no_temperature_is_told_what_to_do(serve) -> None:
    refusal = {"error": {"message": "does not support 0.0", "param": "temperature", "code": "unsupported_value"}}
    endpoint = serve(lambda *_: (400, refusal))
    [completion] = sampler(endpoint).sample(requests())
    assert "--temperature None" in completion.error
    assert len(endpoint.requests) == 1


def test_an_error_sent_as_if_all_were_well_is_told_and_asked_again(serve) -> None:
    overloaded = (200, {"error": {"message": "overloaded", "code": 503}})
    endpoint = serve(lambda number, _: chat("ok") if number == 1 else overloaded)
    asked = sampler(endpoint)
    assert asked.sample(requests())[0].text == "ok"
    [completion] = asked.sample(requests())
    assert "overloaded" in completion.error
    assert len(endpoint.requests) == 4


def test_a_reply_cut_at_its_limit_is_overlong_and_not_an_error(serve) -> None:
    [completion] = sampler(serve(lambda *_: chat("<think>hmm", "length"))).sample(requests())
    assert (completion.text, completion.overlong, completion.error) == ("<think>hmm", True, None)


def test_thinking_sent_apart_is_read_where_a_reply_must_think(serve) -> None:
    endpoint = serve(lambda *_: chat("<guess>crane</guess>", reasoning_content=f"why {KEY}"))
    for thinking in Thinking:
        asked = sampler(endpoint, thinking=thinking)
        before = "<think>why (key)</think>\n" if thinking is Thinking.REQUIRED else ""
        assert asked.sample(requests())[0].text == f"{before}<guess>crane</guess>"


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/v1", "127.0.0.1:9", "http://"])
def test_an_address_where_nothing_answers_is_refused_in_one_line(url) -> None:
    with pytest.raises(ConfigError, match=r"no response from .*base-url") as caught:
        OpenAISampler(Endpoint(url, "OPENAI_API_KEY", KEY), "m", SamplingSettings(), PatienceSettings())
    assert "\n" not in str(caught.value)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "code", "tries"),
    [(400, None, 1), (401, None, 1), (404, None, 1), (429, "insufficient_quota", 1), (429, None, 3), (503, None, 3)],
)
def test_a_refusal_is_tried_again_only_where_that_may_help(status, code, tries, serve) -> None:
    refused = {"error": {"message": f"no\n{KEY}", "code": code, "param": "top_p"}}
    endpoint = serve(lambda *_: (status, refused, {"retry-after-ms": "5"}))
    limits = {"timeout_s": 5.0, "max_retries": 2}

    async def ask() -> None:
        async with EndpointClient(Endpoint(endpoint.url, "OPENAI_API_KEY", KEY), "m", 9, {}, **limits) as client:
            await client.ask([{"role": "user", "content": "a game"}], read_answer)

    with pytest.raises(RequestFailedError) as caught:
        asyncio.run(ask())
    failed = caught.value
    assert (failed.status, failed.code, failed.param, len(endpoint.requests)) == (status, code, "top_p", tries)
    assert "(key)" in str(failed)
    assert KEY not in repr(failed)
    assert "\n" not in str(failed)


def answer(finish: object = "stop", choice: dict | None = None, **message: object) -> ChatCompletion:
    made = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}, **(choice or {})}
    return ChatCompletion.construct(id="1", choices=[made])


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (answer(content="hello"), Said("hello")),
        (answer(content=None), Said("")),
        (answer("length", content="hel"), Said("hel", finish="length")),
        (answer(content=None, refusal="no"), Said("no", finish="refusal")),
        (answer(content="hello", reasoning_content="why"), Said("hello", "why")),
        (answer(content="hello", reasoning="why"), Said("hello", "why")),
        (answer(content="a\ud83d", reasoning="b\ud83d"), Said("a?", "b?")),
        (answer(content=[{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]), Said("hello")),
    ],
)
def test_what_was_said_is_read(sent, said) -> None:
    assert read_answer(sent) == said


@pytest.mark.parametrize(
    ("said", "reply"),
    [
        (Said("[a]", " why "), "<think>why</think>\n[a]"),
        (Said("[a]", "</think><guess>no"), "<think>no</think>\n[a]"),
        (Said("", "why"), "<think>why</think>\n"),
        (Said("[a]"), None),
        (Said("<think>so</think>[a]", "why"), None),
    ],
)
def test_a_thought_that_came_apart_stands_where_one_is_required_and_none_is_said(said, reply) -> None:
    assert as_reply(said, Thinking.REQUIRED) == (reply or said.text)
    for thinking in (Thinking.OFF, Thinking.OPTIONAL):
        assert as_reply(said, thinking) == said.text
