"""A clean stop on Ctrl-C: the first one requests a stop, the second one interrupts."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """A request to stop.

    Attributes:
        wanted: Ctrl-C reached this process; a second one then interrupts at once.
        agreed: It reached some process, and all of them stop at the same step. Kept apart from `wanted`, since the
            Ctrl-C of a terminal reaches the processes one after the other, and none may take its first for a second.
    """

    def __init__(self) -> None:
        self.wanted = self.agreed = False


@contextmanager
def held_interrupt() -> Iterator[StopRequest]:
    """Turn the first Ctrl-C into a request, so that training can save a checkpoint before it stops.

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
