"""Laws of waiting: as long as the server asks; otherwise ever longer, within a bound."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordle_rl.policy.endpoint.retry import FIRST_PAUSE_S, LONGEST_PAUSE_S, Backoff, asked_pause_s, pause_s

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Fri, 15 Jan 2027 08:01:00 GMT"}, 60.0),
        ({"retry-after": "Fri, 15 Jan 2027 07:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({"x-ratelimit-reset-requests": "6m0s"}, 360.0),
        ({"x-ratelimit-reset-tokens": "20ms"}, 0.02),
        ({"x-ratelimit-reset": str(NOW + 30)}, 30.0),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "8s"}, 8.0),
        (
            {
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-reset-tokens": "8s",
                "x-ratelimit-remaining-tokens": "500",
            },
            1.0,
        ),
    ],
)
def test_the_pause_a_server_asks_for(headers, seconds) -> None:
    assert asked_pause_s(headers, NOW) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize("status", [None, 408, 500, 502, 503])
def test_a_rate_limit_is_a_pause_after_too_many_requests_alone(status: int | None) -> None:
    backoff, limits = Backoff(), {"X-RateLimit-Reset-Requests": "1h"}
    assert backoff.after(status, limits, 1) <= FIRST_PAUSE_S
    assert backoff.left_s() <= FIRST_PAUSE_S
    assert 7.0 <= backoff.after(status, {"Retry-After": "7", **limits}, 1) <= 7.7
    assert backoff.after(429, limits, 1) >= 3600
    assert backoff.left_s() > 3500


@given(st.integers(1, 2000), st.floats(0, 1))
def test_pauses_grow_within_a_bound(attempt: int, spread: float) -> None:
    pause = pause_s({}, attempt, NOW, spread)
    assert 0.75 * FIRST_PAUSE_S <= pause <= LONGEST_PAUSE_S
    assert pause <= pause_s({}, attempt + 1, NOW, spread)
