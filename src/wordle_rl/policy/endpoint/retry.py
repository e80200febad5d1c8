"""Pauses before a retry: as long as the server asks for, otherwise exponential backoff."""

from __future__ import annotations

import math
import random
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

FIRST_PAUSE_S = 0.5
"""Pause before the first retry, if the server names none."""
LONGEST_PAUSE_S = 60.0
"""Longest pause that the server did not ask for."""

_PASSING = {408, 409, 425, 429}
"""Statuses after which a retry can succeed, besides 500 and above."""
_OVERRUN = {429, 503}
"""Statuses that mean overload: no request is sent before the pause is over."""
_LIMITED = 429
"""The only status for which `x-ratelimit-reset…` counts; many servers send that header with every response."""

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+")


def is_passing(status: int) -> bool:
    """True if a request with this status can be sent again."""
    return status in _PASSING or status >= 500


class Backoff:
    """The pauses of all requests to one server; if it is overloaded, all of them wait."""

    def __init__(self) -> None:
        self._resume_at = 0.0  # on the clock of `time.monotonic`

    def left_s(self) -> float:
        """Return the seconds until the next request can be sent."""
        return max(0.0, self._resume_at - time.monotonic())

    def after(self, status: int | None, headers: Mapping[str, str], attempt: int) -> float:
        """Return the seconds to wait before a retry, see `pause_s`.

        Args:
            status: HTTP status of the response; None if there was none.
            headers: Headers of the response.
            attempt: Number of failed attempts so far, from 1.
        """
        named = {
            name.lower(): value
            for name, value in headers.items()
            if status == _LIMITED or not name.lower().startswith("x-ratelimit-")
        }
        seconds = pause_s(named, attempt, time.time(), random.random())
        if status in _OVERRUN:
            self._resume_at = max(self._resume_at, time.monotonic() + seconds)
        return seconds


def pause_s(headers: Mapping[str, str], attempt: int, now: float, jitter: float) -> float:
    """Return the seconds to wait before the next attempt.

    Args:
        headers: Headers of the response, names in lower case.
        attempt: Number of failed attempts so far, from 1.
        now: Seconds since the epoch.
        jitter: A random number from 0 to 1 that keeps clients from returning all at once. It lengthens a pause that the
            server asked for by up to 10 %, and shortens any other by up to 25 %.
    """
    asked = asked_pause_s(headers, now)
    if asked:
        return asked * (1 + 0.1 * jitter)
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(attempt - 1, 30)) * (1 - 0.25 * jitter)


def asked_pause_s(headers: Mapping[str, str], now: float) -> float | None:
    """Return the pause that a server asks for, in seconds; None if it asks for none.

    `retry-after-ms` and `retry-after` (seconds or a date) come first. Otherwise it is the longest `x-ratelimit-reset…`
    whose `x-ratelimit-remaining…` is used up: seconds, a duration such as `6m0s`, or a time since the epoch.

    Examples:
        >>> asked_pause_s({"retry-after": "2.5"}, now=0)
        2.5
        >>> asked_pause_s({"x-ratelimit-reset-tokens": "1m30s", "x-ratelimit-remaining-tokens": "0"}, now=0)
        90.0
        >>> asked_pause_s({"x-ratelimit-reset-tokens": "90", "x-ratelimit-remaining-tokens": "500"}, now=0)
    """
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    after = headers.get("retry-after", "")
    named = _number(after) if _number(after) is not None else _until(after, now)
    if named is not None:
        return named
    resets = [
        _reset_s(value, now)
        for name, value in headers.items()
        if name.startswith("x-ratelimit-reset") and not _is_left(headers.get(name.replace("reset", "remaining"), "0"))
    ]
    return max((reset for reset in resets if reset is not None), default=None)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _until(date: str, now: float) -> float | None:
    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def _is_left(remaining: str) -> bool:
    return (_number(remaining) or 0.0) > 0


def _reset_s(text: str, now: float) -> float | None:
    value = _number(text)
    if value is None:
        if not _DURATION.fullmatch(text):
            return None
        return sum(float(n) * _UNITS_S[unit] for n, unit in re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", text))
    if value > 1e12:  # milliseconds since the epoch
        value /= 1000
    return max(0.0, value - now) if value > 1e9 else value
