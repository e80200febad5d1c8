"""Stop cleanly on Ctrl-C: the first one requests a stop, the second one interrupts."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """A request to stop.

    Attributes:
        wanted: Ctrl-C reached this process; a second one interrupts at once.
        agreed: Ctrl-C reached some process, and all processes stop at the same step. It is separate from `wanted`,
            because a terminal's Ctrl-C reaches processes one after the other: a process that learns of it from another
            must not take its own first Ctrl-C for a second.
    """

    def __init__(self) -> None:
        self.wanted = self.agreed = False


@contextmanager
def held_interrupt() -> Iterator[StopRequest]:
    """Turn the first Ctrl-C into a request, so that training can save a checkpoint and then stop.

    Raises:
        KeyboardInterrupt: At the end, if a stop was requested.
    """
    request = StopRequest()

    def handle(_signal: int, _frame: FrameType | None) -> None:
        if request.wanted:
            raise KeyboardInterrupt
        request.wanted = True

    if threading.current_thread() is not threading.main_thread():  # only the main thread receives signals
        yield request
        return
    before = signal.signal(signal.SIGINT, handle)
    try:
        yield request
    finally:
        signal.signal(signal.SIGINT, before)
    if request.wanted or request.agreed:
        raise KeyboardInterrupt
