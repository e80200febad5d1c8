"""Requests to a chat endpoint, with retries, one pause for all requests, and no key in any message."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

from openai import APIConnectionError, APIError, APIStatusError, APITimeoutError, AsyncOpenAI, AuthenticationError

from wordle_rl.config import ConfigError
from wordle_rl.policy.endpoint.providers import Endpoint
from wordle_rl.policy.endpoint.retry import Backoff, is_passing
from wordle_rl.policy.run_async import run_async
from wordle_rl.prompt import Message
from wordle_rl.runs import without_lone_surrogates

T = TypeVar("T")

_LOOK_S = 10.0
"""Timeout of the list of models, in seconds."""

NO_QUOTA = "insufficient_quota"
"""Error code of a status 429 that waiting does not cure."""


def check_endpoint(endpoint: Endpoint) -> None:
    """Check that an endpoint answers and accepts the key, by listing its models, which costs nothing.

    Raises:
        ConfigError: If it does not answer or refuses the key.
    """
    try:
        run_async(_list_models(endpoint))
    except (APIConnectionError, TimeoutError):
        raise ConfigError(
            f"no response from {endpoint.base_url}; start the server or correct its address (--base-url)"
        ) from None
    except AuthenticationError:
        raise ConfigError(f"{endpoint.base_url} refused the key; set {endpoint.key_name}") from None
    except APIError:
        return  # some endpoints have no list of models but can chat


async def _list_models(endpoint: Endpoint) -> None:
    client = AsyncOpenAI(base_url=endpoint.base_url, api_key=endpoint.key, timeout=_LOOK_S, max_retries=0)
    async with asyncio.timeout(_LOOK_S), client:
        await client.models.with_raw_response.list()  # raw, since some endpoints use a format of their own


class RequestFailedError(Exception):
    """A request that failed for good; the message gives the reason in one line, without the key.

    `status`, `code` and `param` come from the last response; None if it did not name them.
    """

    def __init__(self, reason: str, error: Exception) -> None:
        super().__init__(reason)
        self.status: int | None = error.status_code if isinstance(error, APIStatusError) else None
        self.code: str | None = error.code if isinstance(error, APIError) else None
        self.param: str | None = error.param if isinstance(error, APIError) else None


class EndpointClient:
    """Client for one model of an endpoint. Requests run concurrently and all wait when the server is overloaded.

    Args:
        endpoint: Address and key.
        model: Name of the model at the endpoint.
        max_completion_tokens: Most tokens of a reply.
        temperature: None: the endpoint's default.
        top_p: None: the endpoint's default.
        timeout_s: Timeout of one attempt, in seconds, until the last byte.
        max_retries: Retries of a request after rate limits, timeouts, server errors and unreadable responses.
        wait: Called before every attempt with the seconds to pause; if it raises, the request ends.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        model: str,
        max_completion_tokens: int,
        temperature: float | None,
        top_p: float | None,
        timeout_s: float,
        max_retries: int,
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._endpoint, self._max_retries, self._wait = endpoint, max_retries, wait
        self._timeout_s = timeout_s
        drawing = {"temperature": temperature, "top_p": top_p}
        self._body: dict[str, Any] = {
            "model": model,
            endpoint.limit_name: max_completion_tokens,
            **{name: value for name, value in drawing.items() if value is not None},
        }
        self._backoff = Backoff()
        self._openai = AsyncOpenAI(
            base_url=endpoint.base_url,
            api_key=endpoint.key,
            timeout=timeout_s,
            max_retries=0,  # `ask` retries, so that all requests wait when the server tells one to
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._openai.close()

    async def ask(self, messages: Sequence[Message], read: Callable[[object], T], seed: int | None = None) -> T:
        """Send a conversation and return the parsed response.

        Args:
            messages: The conversation.
            read: Parses a response; a `ValueError` means that it is unusable and the request is sent again.
            seed: Seed to send along. None: send none.

        Raises:
            RequestFailedError: If the request is refused for good, or all attempts fail.
        """
        body = {**self._body, "messages": list(messages), **({} if seed is None else {"seed": seed})}
        pause_s = 0.0
        for attempt in range(1, self._max_retries + 2):
            await self._wait(pause_s)
            while left_s := self._backoff.left_s():
                await self._wait(left_s)
            headers: Mapping[str, str] = {}
            status = None
            try:
                async with asyncio.timeout(self._timeout_s):
                    answer = await self._openai.chat.completions.create(**body)
                return read(answer)
            except APIStatusError as error:
                failed = self._failed(error)
                if not is_passing(error.status_code) or error.code == NO_QUOTA:
                    raise failed from None
                status, headers = error.status_code, error.response.headers
            except (APITimeoutError, TimeoutError) as error:  # the SDK's own timeout starts anew with every read
                failed = RequestFailedError(f"no complete response within {self._timeout_s:g} s", error)
            except (APIError, ValueError, RecursionError) as error:  # no JSON, nested too deeply, or no message
                failed = self._failed(error)
            if attempt <= self._max_retries:
                pause_s = self._backoff.after(status, headers, attempt)
        raise failed

    def _failed(self, error: Exception) -> RequestFailedError:
        line = " ".join(f"{type(error).__name__}: {error}".split())
        return RequestFailedError(self._endpoint.without_key(without_lone_surrogates(line))[:300], error)
