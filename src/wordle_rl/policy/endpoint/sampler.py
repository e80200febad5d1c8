"""Sampling from any OpenAI-compatible endpoint: all games of a turn at once, or each game at its own pace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from wordle_rl.config import PatienceSettings, SamplingSettings
from wordle_rl.policy.base import Ask, Completion, Request
from wordle_rl.policy.endpoint.client import EndpointClient, RequestFailedError, check_endpoint
from wordle_rl.policy.endpoint.providers import Endpoint
from wordle_rl.policy.endpoint.responses import as_reply, read_answer
from wordle_rl.policy.run_async import run_async
from wordle_rl.prompt import Thinking


class OpenAISampler:
    """Sample replies from a chat endpoint. If a request keeps failing, its game is an error, never a loss.

    Args:
        endpoint: Address and key.
        model: Name of the model at the endpoint.
        sampling: How to draw tokens, and the most tokens of a reply.
        patience: Number of concurrent requests, and their timeout.
        thinking: Whether replies can or must think. If one must and does not, separate reasoning stands in.
        endpoint_default_sampling: Send neither temperature nor top_p, since some models accept only their defaults.
        max_retries: Retries after rate limits, timeouts and server errors, with growing pauses.

    Raises:
        ConfigError: If the endpoint does not answer or refuses the key.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        model: str,
        sampling: SamplingSettings,
        patience: PatienceSettings,
        thinking: Thinking = Thinking.OPTIONAL,
        *,
        endpoint_default_sampling: bool = False,
        max_retries: int = 3,
    ) -> None:
        self.codec = None
        self._endpoint, self._model = endpoint, model
        self._sampling, self._patience, self._thinking = sampling, patience, thinking
        self._endpoint_default_sampling = endpoint_default_sampling
        self._max_retries = max_retries
        check_endpoint(endpoint)

    def begin(self) -> None:
        """Do nothing: endpoints keep nothing between games."""

    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """Return one completion per request."""
        return run_async(self._sample_all(requests))

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Ask]:
        """Open one client for many requests, `patience.concurrency` at a time."""
        gate = asyncio.Semaphore(self._patience.concurrency)
        is_default = self._endpoint_default_sampling
        async with EndpointClient(
            self._endpoint,
            model=self._model,
            max_completion_tokens=self._sampling.max_completion_tokens,
            temperature=None if is_default else self._sampling.temperature,
            top_p=None if is_default else self._sampling.top_p,
            timeout_s=self._patience.timeout_s,
            max_retries=self._max_retries,
        ) as client:

            async def ask(request: Request) -> Completion:
                async with gate:
                    return await self._ask(client, request)

            yield ask

    async def _sample_all(self, requests: Sequence[Request]) -> list[Completion]:
        async with self.session() as ask:
            return list(await asyncio.gather(*(ask(request) for request in requests)))

    async def _ask(self, client: EndpointClient, request: Request) -> Completion:
        try:
            return await client.ask(request.messages, self._read)
        except RequestFailedError as failed:
            hint = ""
            if failed.status == 400 and failed.param in ("temperature", "top_p"):
                hint = "use the endpoint's default sampling with --temperature None: "
            return Completion("", error=f"{hint}{failed}")

    def _read(self, answer: object) -> Completion:
        said = read_answer(answer, self._endpoint.without_key)  # completions are stored and shown
        reply, _ = as_reply(said, self._thinking)
        return Completion(reply, overlong=said.finish == "length")
