"""Sampling from any OpenAI-compatible endpoint: all games of a turn at once, or every game at its own pace."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import cast

from openai import APIConnectionError, APIError, AsyncOpenAI, AuthenticationError, OpenAI
from openai.types.chat import ChatCompletion, ChatCompletionMessage, ChatCompletionMessageParam
from openai.types.chat.chat_completion import Choice
from pydantic import BaseModel, ConfigDict, Field

from wordle_rl.config import ConfigError, SamplingSettings
from wordle_rl.prompt import with_opened_thought
from wordle_rl.samplers.base import Ask, Completion, Request
from wordle_rl.samplers.loop import run_async


class EndpointSettings(BaseModel):
    """How to reach an endpoint and how patient to be."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    model: str
    """Model name as the endpoint knows it."""
    base_url: str = "https://api.openai.com/v1"
    """Address of the API, up to and with its version."""
    max_concurrent: int = Field(16, ge=1)
    """Requests under way at once."""
    timeout_s: float = Field(120.0, gt=0)
    """Time for one request, in seconds."""
    max_retries: int = Field(3, ge=0)
    """Retries with growing pauses after rate limits, time-outs and server errors."""


def check_endpoint(base_url: str, key: str, key_name: str) -> None:
    """Ask an endpoint for its models, which costs nothing, to see that it is there and takes the key.

    Raises:
        ConfigError: If nothing answers at the address or the key is refused.
    """
    client = OpenAI(base_url=base_url, api_key=key, timeout=10.0, max_retries=0)
    try:
        with client:
            client.models.with_raw_response.list()  # raw, since some endpoints list them in a form of their own
    except APIConnectionError:
        raise ConfigError(f"nothing answers at {base_url}; start the server or mend its address (--base-url)") from None
    except AuthenticationError:
        raise ConfigError(f"{base_url} refused the key; set {key_name}") from None
    except APIError:
        return  # an endpoint without a model list may still chat


_NO_KEY = "no-key-needed"


class OpenAISampler:
    """Asks a chat endpoint. A request that keeps failing makes its game an error, never a loss.

    The key is read from `OPENAI_API_KEY` and never stored; endpoints on one's own machine need none.

    Raises:
        ConfigError: If nothing answers at the address or the key is refused.
    """

    def __init__(self, endpoint: EndpointSettings, sampling: SamplingSettings) -> None:
        self.codec = None
        self._endpoint = endpoint
        self._sampling = sampling
        self._key = os.environ.get("OPENAI_API_KEY") or _NO_KEY
        check_endpoint(endpoint.base_url, self._key, "OPENAI_API_KEY")

    def begin(self) -> None:
        """Endpoints keep nothing between games."""

    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """One chat completion per request."""
        return run_async(self._sample_all(requests))

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Ask]:
        """One client for many requests, each asked for when its game is ready, `max_concurrent` at once."""
        endpoint = self._endpoint
        gate = asyncio.Semaphore(endpoint.max_concurrent)
        async with AsyncOpenAI(
            base_url=endpoint.base_url,
            api_key=self._key,
            timeout=endpoint.timeout_s,
            max_retries=endpoint.max_retries,
        ) as client:

            async def ask(request: Request) -> Completion:
                async with gate:
                    return await self._ask(client, request)

            yield ask

    async def _sample_all(self, requests: Sequence[Request]) -> list[Completion]:
        async with self.session() as ask:
            return list(await asyncio.gather(*(ask(request) for request in requests)))

    async def _ask(self, client: AsyncOpenAI, request: Request) -> Completion:
        try:
            answer = await client.chat.completions.create(
                model=self._endpoint.model,
                messages=cast("list[ChatCompletionMessageParam]", list(request.messages)),
                temperature=self._sampling.temperature,
                top_p=self._sampling.top_p,
                max_tokens=self._sampling.max_completion_tokens,
            )
        except (APIError, ValueError) as error:  # ValueError: an answer that is no JSON
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            return Completion("", error=_writable(reason.replace(self._key, "(key)"))[:200])
        return _read(answer)


def _read(answer: object) -> Completion:
    """What was said; a server that is no chat endpoint may send anything with status 200, and the client lets it."""
    choices: object = answer.choices if isinstance(answer, ChatCompletion) else None
    if not isinstance(choices, list) or not choices:
        return Completion("", error="the endpoint sent no choices")
    choice = choices[0]
    if not isinstance(choice, Choice) or not isinstance(choice.message, ChatCompletionMessage):
        return Completion("", error="the endpoint sent a choice without a message")
    content: object = choice.message.content
    if not isinstance(content, str | None):
        return Completion("", error="the endpoint sent a message that is no text")
    return Completion(with_opened_thought(_writable(content or "")), overlong=choice.finish_reason == "length")


def _writable(text: str) -> str:
    """The text without halves of surrogate pairs, which JSON can bring and no file can hold."""
    return text.encode("utf-8", "replace").decode()
