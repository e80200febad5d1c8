"""Run asynchronous code from synchronous code, even inside a running event loop, as in a notebook."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end and return its result.

    Inside a running loop, the coroutine gets a thread and a loop of its own. Ctrl-C cancels it and is raised once it
    has cleaned up.
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
