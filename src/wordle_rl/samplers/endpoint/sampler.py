"""Sampling from any OpenAI-compatible endpoint: all games of a turn at once, or every game at its own pace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from wordle_rl.config import PatienceSettings, SamplingSettings
from wordle_rl.prompt import Thinking
from wordle_rl.samplers.base import Ask, Completion, Request
from wordle_rl.samplers.endpoint.client import EndpointClient, RequestFailedError, check_endpoint
from wordle_rl.samplers.endpoint.providers import Endpoint
from wordle_rl.samplers.endpoint.responses import as_reply, read_answer
from wordle_rl.samplers.run_async import run_async


class OpenAISampler:
    """Asks a chat endpoint. A request that keeps failing makes its game an error, never a loss.

    When the server has too many requests, all games wait as long as it asks for.

    Args:
        endpoint: Where to ask, and the key.
        model: Model name as the endpoint knows it.
        sampling: How tokens are drawn, and the bound on a reply.
        patience: How many requests at once, and the time for one.
        thinking: Whether a reply may think. If it must and does not, the endpoint's separate reasoning is its thinking.
        endpoint_default_sampling: Send neither temperature nor top_p: some models refuse any but their own.
        max_retries: Further tries of a request after rate limits, time-outs and server errors, with growing pauses.

    Raises:
        ConfigError: If the address does not respond or the key is refused.
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
        """Endpoints keep nothing between games."""

    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """One chat completion per request."""
        return run_async(self._sample_all(requests))

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Ask]:
        """One client for many requests, each sent when its game is ready, `patience.concurrency` at once."""
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
                hint = "leave drawing to the endpoint with --temperature None: "
            return Completion("", error=f"{hint}{failed}")

    def _read(self, answer: object) -> Completion:
        """Response text without the key, since completions are stored and shown as they are.

        Raises:
            AnswerError: If the response holds no message.
        """
        said = read_answer(answer, self._endpoint.without_key)
        reply, _ = as_reply(said, self._thinking)
        return Completion(reply, overlong=said.finish == "length")
