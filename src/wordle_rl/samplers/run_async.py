"""Asynchronous work from ordinary code, also where an event loop is already running, as in a notebook."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end and return its result.

    Inside a running loop the work gets a thread and a loop of its own, and the caller waits. An interrupt (Ctrl-C)
    cancels the work either way, and is raised once the work has tidied up.
    """
    return _run_in_thread(work) if _inside_a_loop() else asyncio.run(work)


def _inside_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _run_in_thread(work: Coroutine[Any, Any, T]) -> T:
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any] | None]] = Future()

    async def announced() -> T:
        started.set_result((asyncio.get_running_loop(), asyncio.current_task()))
        return await work

    with ThreadPoolExecutor(1, thread_name_prefix="wordle-rl") as pool:
        outcome = pool.submit(asyncio.run, announced())
        try:
            return outcome.result()
        except BaseException:
            loop, task = started.result()
            if task is not None and not outcome.done():
                with suppress(RuntimeError):  # the loop ended by itself in the meantime
                    loop.call_soon_threadsafe(task.cancel)
            raise
