"""Metrics and states of the processes that train together, as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_SUMS = {"cumulative_wins", "failed_games", "refilled_groups", "skipped_groups"}


def merged_metrics(records: Sequence[tuple[Mapping[str, float], Mapping[str, int]]]) -> dict[str, float]:
    """The metrics of all processes as one: sums of counts, the largest of maxima, weighted means of the rest.

    Args:
        records: For each process its metrics and, for each mean not over all games, its denominator.
    """
    found: dict[str, list[tuple[float, int]]] = {}
    for metrics, denominators in records:
        for name, value in metrics.items():
            found.setdefault(name, []).append((value, denominators.get(name, 1)))
    result = {}
    for name, values in found.items():
        if name in _SUMS:
            result[name] = sum(value for value, _ in values)
        elif name.endswith("/max"):
            result[name] = max(value for value, _ in values)
        else:
            result[name] = sum(value * count for value, count in values) / max(sum(count for _, count in values), 1)
    return result


def merged_state(states: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The rollouts' states of all processes as one; priorities of the same secret are averaged, equally weighted."""
    return {
        "priorities": _means([state["priorities"] for state in states]),
        # All processes were told the compliance of all.
        "best_compliance": states[0]["best_compliance"],
        "compliance": states[0]["compliance"],
        "cumulative_wins": sum(state["cumulative_wins"] for state in states),
    }


def _means(records: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of every number over the records that have it."""
    found: dict[str, list[float]] = {}
    for record in records:
        for name, value in record.items():
            found.setdefault(name, []).append(value)
    return {name: sum(values) / len(values) for name, values in found.items()}
