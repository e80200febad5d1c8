"""Rates as percent."""

from __future__ import annotations

_DUST = 1e-9
"""What sums of floating-point numbers may leave of nothing."""


def in_percent(rate: float, digits: int = 1) -> str:
    """A rate of 0 to 1 in percent, without the sign; it reads as 0 or 100 only if it is.

    Args:
        rate: The rate.
        digits: Decimals, unless it takes more of them to tell the rate from 0 or 100.

    Examples:
        >>> in_percent(1999 / 2000), in_percent(1 / 3000), in_percent(1.0), in_percent(0.5)
        ('99.95', '0.03', '100.0', '50.0')
        >>> in_percent(0.996, 0), in_percent(0.994, 0)
        ('99.6', '99')
    """
    if min(abs(rate), abs(1 - rate)) < _DUST:
        return f"{100 * round(rate):.{digits}f}"
    text = f"{100 * rate:.{digits}f}"
    return in_percent(rate, digits + 1) if float(text) in (0, 100) else text
