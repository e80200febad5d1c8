"""The interfaces: a `Sampler` between rollouts and players; the way to a library other than torch."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from wordle_rl.chat.codec import ChatCodec
from wordle_rl.game import Turn
from wordle_rl.prompt import Message

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """A request for the next completion of one game. It never holds the secret."""

    game_id: int
    """The same over all turns of a game."""
    messages: tuple[Message, ...]
    """The whole prompt as text."""
    turns: tuple[Turn, ...]
    """The board so far."""
    prompt_ids: Sequence[int] = ()
    """The prompt as token ids; empty for a sampler without a codec."""


@dataclass(frozen=True, slots=True)
class Completion:
    """The completion of one turn."""

    text: str
    token_ids: tuple[int, ...] = ()
    """The tokens exactly as sampled, including the closing one."""
    sampler_logprobs: tuple[float, ...] = ()
    """Their natural log-probabilities under the sampling distribution."""
    overlong: bool = False
    """The reply was cut at the token limit."""
    error: str | None = None
    """Why sampling failed. Such a game is an error, never a loss."""

    @classmethod
    def of_tokens(cls, codec: ChatCodec, token_ids: Sequence[int], logprobs: Sequence[float]) -> Completion:
        """Build a completion from sampled tokens; it is overlong if the last one does not end the turn."""
        overlong = token_ids[-1] not in codec.stop_ids
        return cls(codec.text_of(token_ids), tuple(token_ids), tuple(logprobs), overlong)


class Sampler(Protocol):
    """A player for many games at once."""

    @property
    def codec(self) -> ChatCodec | None:
        """The player's tokenizer and template; None if it reads text instead of tokens."""

    def begin(self) -> None:
        """Forget all earlier games, so that ids can be used again."""

    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """Return one completion per request, in order."""


Ask = Callable[[Request], Awaitable[Completion]]
"""Asks for one turn of one game. A failure is a completion with an `error`, never an exception."""


@runtime_checkable
class ConcurrentSampler(Protocol):
    """A player that takes a request for each game on its own, many at once, such as a server."""

    def session(self) -> AbstractAsyncContextManager[Ask]:
        """Open connections for as long as the context lasts."""


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end and return its result.

    Inside a running loop, as in a notebook, it gets a thread and a loop of its own. Ctrl-C cancels it and is raised
    once it has cleaned up.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any] | None]] = Future()

    async def announced() -> T:
        started.set_result((asyncio.get_running_loop(), asyncio.current_task()))
        return await work

    with ThreadPoolExecutor(1, thread_name_prefix="wordle-rl") as pool:
        outcome = pool.submit(asyncio.run, announced())
        try:
            return outcome.result()
        except BaseException:
            # Ctrl-C interrupts only this thread. Cancel the task, or leaving the pool would wait for it to finish.
            loop, task = started.result()
            if task is not None and not outcome.done():
                with suppress(RuntimeError):  # the loop ended by itself in the meantime
                    loop.call_soon_threadsafe(task.cancel)
            raise


def find_backend(name: str) -> Any:
    """Import the package of a library other than torch: `wordle_rl.mlx`, and whatever has the same functions.

    No room imports these packages by name, so that each can be left out.
    """
    package = importlib.import_module(f"wordle_rl.{name}")
    package.check_installed()
    return package
