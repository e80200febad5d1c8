"""A time limit for games in lockstep: past it, every game in play is an error."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from wordle_rl.policy.base import Completion, Request, Sampler

if TYPE_CHECKING:
    from wordle_rl.chat.codec import ChatCodec


class TimeLimit:
    """A sampler that asks another one until the time is up.

    Args:
        sampler: The player.
        max_minutes: Time from now on; 0: no limit.
        clock: Returns seconds.
    """

    def __init__(self, sampler: Sampler, max_minutes: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._sampler, self._clock = sampler, clock
        self._end = clock() + 60 * max_minutes if max_minutes else None
        self.reason = f"not finished within {max_minutes:g} minutes"
        self.ended_play = False
        """True once a request came after the time was up."""

    @property
    def codec(self) -> ChatCodec | None:
        """Codec of the player."""
        return self._sampler.codec

    def begin(self) -> None:
        """Forget all earlier games."""
        self._sampler.begin()

    def sample(self, requests: Sequence[Request]) -> list[Completion]:
        """Return the player's completions, or errors once the time is up."""
        if self._end is None or self._clock() < self._end:
            return self._sampler.sample(requests)
        self.ended_play = True
        return [Completion("", error=self.reason) for _ in requests]
