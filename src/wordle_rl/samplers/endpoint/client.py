"""Requests to a chat endpoint: sent again where that may help, with one pause for all, and no key in any message."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

from openai import APIConnectionError, APIError, APIStatusError, APITimeoutError, AsyncOpenAI, AuthenticationError

from wordle_rl.config import ConfigError
from wordle_rl.prompt import Message
from wordle_rl.runs import without_lone_surrogates
from wordle_rl.samplers.endpoint.providers import Endpoint
from wordle_rl.samplers.endpoint.retry import Backoff, is_passing
from wordle_rl.samplers.run_async import run_async

T = TypeVar("T")

_LOOK_S = 10.0
"""Time for the list of models, in seconds."""

NO_QUOTA = "insufficient_quota"
"""The code of a refusal with status 429, like a rate limit, that no waiting changes."""


def check_endpoint(endpoint: Endpoint) -> None:
    """Ask an endpoint for its models, which costs nothing, to see that it is there and takes the key.

    Raises:
        ConfigError: If the address does not respond or the key is refused.
    """
    try:
        run_async(_list_models(endpoint))
    except (APIConnectionError, TimeoutError):
        raise ConfigError(
            f"no response from {endpoint.base_url}; start the server or fix its address (--base-url)"
        ) from None
    except AuthenticationError:
        raise ConfigError(f"{endpoint.base_url} refused the key; set {endpoint.key_name}") from None
    except APIError:
        return  # an endpoint without a model list may still chat


async def _list_models(endpoint: Endpoint) -> None:
    client = AsyncOpenAI(base_url=endpoint.base_url, api_key=endpoint.key, timeout=_LOOK_S, max_retries=0)
    async with asyncio.timeout(_LOOK_S), client:
        await client.models.with_raw_response.list()  # raw, since some endpoints list them in a form of their own


class RequestFailedError(Exception):
    """A request that failed for good.

    Its message gives the reason in one line, without the key. `status`, `code` and `param` are those of the last
    refusal, None where there was no response or it did not name them.
    """

    def __init__(self, reason: str, error: Exception) -> None:
        super().__init__(reason)
        self.status: int | None = error.status_code if isinstance(error, APIStatusError) else None
        self.code: str | None = error.code if isinstance(error, APIError) else None
        self.param: str | None = error.param if isinstance(error, APIError) else None


class EndpointClient:
    """Asks one model of an endpoint, many requests at once. When the server has too many, all of them wait.

    Args:
        endpoint: Where to ask, and the key.
        model: Model name as the endpoint knows it.
        max_completion_tokens: Bound on one reply.
        temperature: None: the endpoint's default.
        top_p: None: the endpoint's default.
        timeout_s: Time for one try, in seconds, until its last byte, however slowly these come.
        max_retries: Further tries of a request after rate limits, time-outs, server errors and unreadable responses.
        wait: Called before every try with the seconds to pause, 0.0 if none; what it raises ends the request.
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
            max_retries=0,  # tried again here, so that all requests wait when one is told to
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._openai.close()

    async def ask(self, messages: Sequence[Message], read: Callable[[object], T], seed: int | None = None) -> T:
        """Parsed response to a conversation, after as many attempts as allowed.

        Args:
            messages: The conversation.
            read: Parses a response. A `ValueError` means that it is unusable, so the request is sent again.
            seed: Sent along; None: none is.

        Raises:
            RequestFailedError: If the request is refused for good, or the last try failed too.
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
            except (APITimeoutError, TimeoutError) as error:  # the SDK times each read on its own
                failed = RequestFailedError(f"no whole response within {self._timeout_s:g} s", error)
            except (APIError, ValueError, RecursionError) as error:  # no JSON, nested too deeply, or no message
                failed = self._failed(error)
            if attempt <= self._max_retries:
                pause_s = self._backoff.after(status, headers, attempt)
        raise failed

    def _failed(self, error: Exception) -> RequestFailedError:
        line = " ".join(f"{type(error).__name__}: {error}".split())
        return RequestFailedError(self._endpoint.without_key(without_lone_surrogates(line))[:300], error)
