"""`wordle-rl serve` under a clock that runs faster: what waits an hour waits a fraction of it.

    python benchmarks/fast_clock_server.py SPEED [options of wordle-rl serve]

Every time-out, ping and idle session of the process follows the fast clock. It runs on asyncio's own event loop, whose
waits are shortened alike.
"""

import selectors
import sys
import time

import uvicorn.config

from wordle_rl.cli import main


def speed_up(speed: float) -> None:
    """Make this process's monotonic clock, and the waits of its event loop, run `speed` times as fast."""
    uvicorn.config.LOOP_FACTORIES["uvloop"] = uvicorn.config.LOOP_FACTORIES["asyncio"]  # uvloop has a clock of its own
    monotonic, select = time.monotonic, selectors.DefaultSelector.select
    begun = monotonic()

    def fast() -> float:
        return begun + (monotonic() - begun) * speed

    def wait(selector: selectors.DefaultSelector, timeout: float | None = None) -> object:
        return select(selector, None if timeout is None else timeout / speed)

    time.monotonic = fast
    selectors.DefaultSelector.select = wait  # type: ignore[assignment,method-assign]  # the same, but for the time


if __name__ == "__main__":
    speed_up(float(sys.argv[1]))
    sys.argv = ["wordle-rl", "serve", *sys.argv[2:]]
    sys.exit(main())
