"""Sampling from any OpenAI-compatible endpoint: all games of a turn at once, or every game at its own pace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from openai import (
    APIConnectionError,
    APIError,
    APIStatusError,
    AsyncOpenAI,
    AuthenticationError,
    BadRequestError,
    OpenAI,
)
from pydantic import BaseModel, ConfigDict, Field

from wordle_rl.config import ConfigError, SamplingSettings
from wordle_rl.endpoints.providers import Endpoint
from wordle_rl.endpoints.replies import as_reply, read_answer
from wordle_rl.endpoints.retry import Backoff, is_passing
from wordle_rl.prompt import Thinking
from wordle_rl.runs import writable
from wordle_rl.samplers.base import Ask, Completion, Request
from wordle_rl.samplers.loop import run_async


class EndpointSettings(BaseModel):
    """What to ask an endpoint for and how patient to be."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    model: str
    """Model name as the endpoint knows it."""
    own_drawing: bool = False
    """Leave temperature and top_p to the endpoint: some models refuse any but their own."""
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


class OpenAISampler:
    """Asks a chat endpoint. A request that keeps failing makes its game an error, never a loss.

    A server that has too many requests is given the pause it asks for, by all games at once.

    Args:
        endpoint: Where to ask, and the key.
        settings: What to ask for, and how patiently.
        sampling: How tokens are drawn, unless that is left to the endpoint.
        thinking: Whether a reply may think; where it must, thinking that is sent apart stands before the reply.

    Raises:
        ConfigError: If nothing answers at the address or the key is refused.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        settings: EndpointSettings,
        sampling: SamplingSettings,
        thinking: Thinking = Thinking.OPTIONAL,
    ) -> None:
        self.codec = None
        self._endpoint = endpoint
        self._settings = settings
        self._sampling = sampling
        self._thinking = thinking
        check_endpoint(endpoint.base_url, endpoint.key, endpoint.key_name)

    def begin(self) -> None:
        """Endpoints keep nothing between games."""

    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """One chat completion per request."""
        return run_async(self._sample_all(requests))

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Ask]:
        """One client for many requests, each asked for when its game is ready, `max_concurrent` at once."""
        gate = asyncio.Semaphore(self._settings.max_concurrent)
        backoff = Backoff()
        async with AsyncOpenAI(
            base_url=self._endpoint.base_url,
            api_key=self._endpoint.key,
            timeout=self._settings.timeout_s,
            max_retries=0,  # tried again here, so that all games wait when one is told to
        ) as client:

            async def ask(request: Request) -> Completion:
                async with gate:
                    return await self._ask(client, backoff, request)

            yield ask

    async def _sample_all(self, requests: Sequence[Request]) -> list[Completion]:
        async with self.session() as ask:
            return list(await asyncio.gather(*(ask(request) for request in requests)))

    async def _ask(self, client: AsyncOpenAI, backoff: Backoff, request: Request) -> Completion:
        """One reply, after as many tries as the settings allow."""
        reason = ""
        for attempt in range(1, self._settings.max_retries + 2):
            while left := backoff.left_s():
                await asyncio.sleep(left)
            headers: Mapping[str, str] = {}
            status = None
            try:
                return self._read(await client.chat.completions.create(**self._body(request)))
            except APIStatusError as error:
                reason = _described(error)
                if not is_passing(error.status_code):
                    break
                status, headers = error.status_code, error.response.headers
            except (APIError, ValueError, RecursionError) as error:  # no JSON, one too deep, or no message
                reason = _described(error)
            if attempt <= self._settings.max_retries:
                await asyncio.sleep(backoff.after(status, headers, attempt))
        return Completion("", error=self._endpoint.without_key(writable(reason))[:200])

    def _body(self, request: Request) -> dict[str, Any]:
        sampling = self._sampling
        drawing = {"temperature": sampling.temperature, "top_p": sampling.top_p}
        return {
            "model": self._settings.model,
            "messages": list(request.messages),
            self._endpoint.limit_name: sampling.max_completion_tokens,
            **({} if self._settings.own_drawing else drawing),
        }

    def _read(self, answer: object) -> Completion:
        """What was said, without the key, since completions are stored and shown as they are.

        Raises:
            AnswerError: If nothing was.
        """
        said = read_answer(answer)
        reply, _ = as_reply(said, self._thinking)
        return Completion(self._endpoint.without_key(reply), overlong=said.finish == "length")


def _described(error: Exception) -> str:
    """An error in one line; where the mend is an option of ours, that comes first."""
    told = " ".join(f"{type(error).__name__}: {error}".split())
    refused = isinstance(error, BadRequestError) and error.param in ("temperature", "top_p")
    return f"leave drawing to the endpoint with --temperature None: {told}" if refused else told
