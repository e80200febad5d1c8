"""Models behind an OpenAI-compatible endpoint: requests, and the sampler that sends them.

The SDK retries what it knows (rate limits, server errors, connections), after the pause that a server asks for. Here
stands what it does not: an attempt has an end, and a response that is late or holds no message is asked for again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from openai import (
    APIConnectionError,
    APIError,
    APIStatusError,
    AsyncOpenAI,
    AuthenticationError,
    DefaultAsyncHttpxClient,
)
from openai.types.chat import ChatCompletion, ChatCompletionMessage
from openai.types.chat.chat_completion import Choice

from wordle_rl.config.base import ConfigError
from wordle_rl.config.evaluation import PatienceSettings
from wordle_rl.config.training import SamplingSettings, check_vllm_temperature
from wordle_rl.policy.base import Ask, Completion, Request, run_async
from wordle_rl.policy.providers import Endpoint
from wordle_rl.policy.vllm_server import NEUTRAL_SAMPLING
from wordle_rl.prompt import Message, Thinking, with_opened_thought
from wordle_rl.runs import parse_json, without_lone_surrogates

T = TypeVar("T")

PAUSE_S = 0.5
"""Pause before a response that came late or without a message is asked for again, times the attempts so far."""
NO_QUOTA = "insufficient_quota"
"""Error code of a status 429 that waiting does not cure."""
_LOOK_S = 10.0
"""Timeout of the list of models, in seconds."""
_TAGS = re.compile(r"</?(?:think|guess)>")
"""Tags to remove from separate reasoning before it becomes part of a reply, where they would be parsed."""


class OpenAISampler:
    """Sample replies from a chat endpoint. If a request keeps failing, its game is an error, never a loss.

    If a reply must think and does not, separate reasoning stands in. With `endpoint_default_sampling` neither
    temperature nor top_p is sent, since some models accept only their defaults. A vLLM server is sent every field of
    sampling; others refuse fields that OpenAI does not have.

    Attributes:
        whose_sampling: A line on what decides how replies are drawn.
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
        max_retries: int = 5,
    ) -> None:
        self.codec = None  # an endpoint reads text; its tokens are its own affair
        self._endpoint, self._model = endpoint, model
        self._sampling, self._patience, self._thinking = sampling, patience, thinking
        self._max_retries = max_retries
        # Asked before the first game: a wrong address or key is one line now, not an error of every game.
        is_vllm = check_endpoint(endpoint)
        if is_vllm:
            check_vllm_temperature(sampling.temperature, "temperature")
        self._drawing: dict[str, Any] = {}
        self.whose_sampling = "sampling: temperature, top_p, top_k, min_p and penalties are the endpoint's own"
        if not endpoint_default_sampling:
            # The SDK passes on only what OpenAI has; further fields go into `extra_body`.
            further = NEUTRAL_SAMPLING if is_vllm else {}
            self._drawing = {"temperature": sampling.temperature, "top_p": 1.0, "extra_body": further}
            others = "no top_k, min_p or penalty" if is_vllm else "top_k, min_p and penalties are the endpoint's own"
            self.whose_sampling = f"sampling: temperature {sampling.temperature:g} and top_p 1 as sent; {others}"

    def begin(self) -> None:
        """Do nothing: endpoints keep nothing between games."""

    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """Return one completion per request."""

        async def ask_all() -> list[Completion]:
            async with self.session() as ask:
                return list(await asyncio.gather(*(ask(request) for request in requests)))

        return run_async(ask_all())

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Ask]:
        """Open one client for many requests, `patience.concurrency` at a time."""
        gate = asyncio.Semaphore(self._patience.concurrency)
        async with EndpointClient(
            self._endpoint,
            self._model,
            self._sampling.max_completion_tokens,
            self._drawing,
            timeout_s=self._patience.timeout_s,
            max_retries=self._max_retries,
        ) as client:

            async def ask(request: Request) -> Completion:
                try:
                    async with gate:  # retries wait inside, so that an overloaded server is asked less
                        return await client.ask(request.messages, self._read)
                except RequestFailedError as failed:
                    hint = ""
                    if failed.status == 400 and failed.param in ("temperature", "top_p"):
                        hint = "use the endpoint's default sampling with --temperature None: "
                    return Completion("", error=f"{hint}{failed}")

            yield ask

    def _read(self, answer: object) -> Completion:
        said = read_answer(answer, self._endpoint.without_key)  # completions are stored and shown
        return Completion(as_reply(said, self._thinking), overlong=said.finish == "length")


def check_endpoint(endpoint: Endpoint) -> bool:
    """Check that an endpoint answers and accepts the key, by listing its models, which costs nothing.

    Returns True if it is a vLLM server, by its own account.
    """

    async def list_models() -> str:
        client = AsyncOpenAI(base_url=endpoint.base_url, api_key=endpoint.key, timeout=_LOOK_S, max_retries=0)
        async with asyncio.timeout(_LOOK_S), client:
            listed = await client.models.with_raw_response.list()  # raw, since some endpoints use a format of their own
            return listed.text

    try:
        return _is_vllm(run_async(list_models()))
    except (APIConnectionError, TimeoutError):
        raise ConfigError(
            f"no response from {endpoint.base_url}; start the server or correct its address (--base-url)"
        ) from None
    except AuthenticationError:
        raise ConfigError(f"{endpoint.base_url} refused the key; set {endpoint.key_name}") from None
    except APIError:
        return False  # some endpoints have no list of models but can chat


def _is_vllm(listed: str) -> bool:
    try:
        cards = parse_json(listed)["data"]
        return bool(cards) and all(card["owned_by"] == "vllm" for card in cards)
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


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
    """Client for one model of an endpoint, for many requests at once.

    Args:
        drawing: Fields that say how replies are drawn. What is left out is the endpoint's to choose.
        timeout_s: Timeout of one attempt, in seconds, until the last byte.
        max_retries: Retries of a request after rate limits, timeouts, server errors and unreadable responses.
        before: Called before every request; if it raises, the request is not sent.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        model: str,
        max_completion_tokens: int,
        drawing: Mapping[str, Any],
        *,
        timeout_s: float,
        max_retries: int,
        before: Callable[[], None] = lambda: None,
    ) -> None:
        self._endpoint, self._max_retries, self._before = endpoint, max_retries, before
        self._timeout_s = timeout_s
        self._body: dict[str, Any] = {"model": model, endpoint.limit_name: max_completion_tokens, **drawing}
        self._openai = AsyncOpenAI(
            base_url=endpoint.base_url,
            api_key=endpoint.key,
            timeout=timeout_s,
            max_retries=max_retries,
            http_client=_BoundedClient(timeout_s),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._openai.close()

    async def ask(self, messages: Sequence[Message], read: Callable[[object], T], seed: int | None = None) -> T:
        """Send a conversation and return the response as parsed by `read`.

        A `ValueError` of `read` means that the response is unusable, and the request is sent again.

        Raises:
            RequestFailedError: If the request is refused for good, or all attempts fail.
        """
        body = {**self._body, "messages": list(messages), **({} if seed is None else {"seed": seed})}
        for attempt in range(self._max_retries + 1):
            await asyncio.sleep(PAUSE_S * attempt)
            self._before()  # not before each of the SDK's retries: what was refused cost no tokens
            try:
                return read(await self._openai.chat.completions.create(**body))
            except (APIConnectionError, APIStatusError) as error:
                raise self._failed(error) from None
            except TimeoutError as error:
                failed = RequestFailedError(f"no complete response within {self._timeout_s:g} s", error)
            except (APIError, ValueError, RecursionError) as error:  # no JSON, nested too deeply, or no message
                failed = self._failed(error)
        raise failed

    def _failed(self, error: Exception) -> RequestFailedError:
        line = " ".join(f"{type(error).__name__}: {error}".split())
        return RequestFailedError(self._endpoint.without_key(without_lone_surrogates(line))[:300], error)


class _BoundedClient(DefaultAsyncHttpxClient):
    # The SDK's own timeout begins anew with every read, so a server that trickles would be waited for without end.
    # That a quota is used up the SDK takes for a rate limit, which waiting cures.

    def __init__(self, timeout_s: float) -> None:
        super().__init__()
        self._longest_s = timeout_s

    async def send(self, request: Any, **options: Any) -> Any:
        async with asyncio.timeout(self._longest_s):
            response = await super().send(request, **options)
        if response.status_code == 429 and NO_QUOTA in response.text:
            response.headers["x-should-retry"] = "false"
        return response


class AnswerError(ValueError):
    """A response without a message; a server can send anything with status 200."""


@dataclass(frozen=True, slots=True)
class Said:
    """One message, its texts without lone surrogates, which no file can hold."""

    text: str
    reasoning: str = ""
    """Reasoning that the endpoint sent separately."""
    finish: str = "stop"
    """Why it ended, in the endpoint's words: usually `stop`, or `length` if it was cut."""


def read_answer(answer: object, clean: Callable[[str], str] = str) -> Said:
    """Return the message of a response; `clean` removes secrets from its texts."""
    if not isinstance(answer, ChatCompletion):
        raise AnswerError("the endpoint sent no chat completion")
    if error := (answer.model_extra or {}).get("error"):
        raise AnswerError(f"the endpoint sent an error: {_message_of(error)}")
    # The client does not validate what it parses, so every part can be of any type.
    choices: object = answer.choices
    choice: object = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, Choice) or not isinstance(choice.message, ChatCompletionMessage):
        raise AnswerError("the endpoint sent no choice with a message")
    finish: object = choice.finish_reason
    if finish == "error":
        raise AnswerError(f"an error ended the reply early: {_message_of((choice.model_extra or {}).get('error'))}")
    message, extra = choice.message, choice.message.model_extra or {}
    reasoning = extra.get("reasoning_content") or extra.get("reasoning")
    texts = (
        _text_of(message.content) or _text_of(message.refusal),
        reasoning if isinstance(reasoning, str) else "",
        "refusal" if message.refusal else finish if isinstance(finish, str) and finish else "stop",
    )
    return Said(*(clean(without_lone_surrogates(text)) for text in texts))


def as_reply(said: Said, thinking: Thinking) -> str:
    """Convert a message to a reply that the game can parse.

    If the prompt ended with `<think>`, it is put back. If thinking is required and missing, separate reasoning is
    prepended as `<think>…</think>`.
    """
    text = with_opened_thought(said.text)
    reasoning = _TAGS.sub(" ", said.reasoning).strip()
    missing = thinking is Thinking.REQUIRED and "<think>" not in text
    return f"<think>{reasoning}</think>\n{text}" if missing and reasoning else text


def _message_of(error: object) -> str:
    message = error.get("message") if isinstance(error, dict) else error
    return " ".join(str(message or error or "no details").split())


def _text_of(content: object) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    spoken = [text for text in texts if isinstance(text, str)]
    if not spoken or len(spoken) < len(texts):
        raise AnswerError("the endpoint sent a message that is not text")
    return "".join(spoken)
