"""Prometheus metrics of a server; none of them reveals a word."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from wordle_rl.env import StopReason
from wordle_rl.game import Outcome
from wordle_rl.serve.protocol import Reason

_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)


class Metrics:
    """Counters of a server in its own registry, so that two servers in one process count separately."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._open = Gauge("wordle_sessions_open", "Open sessions.", registry=self.registry)
        self._opened = Counter("wordle_sessions", "Sessions opened.", registry=self.registry)
        self._begun = Counter("wordle_games_begun", "Games begun.", registry=self.registry)
        ended = Counter("wordle_games_ended", "Games ended, by stop reason.", ["stop_reason"], registry=self.registry)
        turns = Counter("wordle_turns", "Turns played, by outcome.", ["outcome"], registry=self.registry)
        refused = Counter("wordle_refusals", "Requests refused, by reason.", ["reason"], registry=self.registry)
        self._seconds = Histogram(
            "wordle_message_seconds", "Time from a message to its answer.", registry=self.registry, buckets=_SECONDS
        )
        self._ended = {reason.value: ended.labels(reason.value) for reason in StopReason}
        self._turns = {outcome.value: turns.labels(outcome.value) for outcome in Outcome}
        self._refused = {reason: refused.labels(reason.value) for reason in Reason}

    def session_opens(self) -> None:
        """Count a session that opens."""
        self._open.inc()
        self._opened.inc()

    def session_closes(self) -> None:
        """Count a session that closes."""
        self._open.dec()

    def game_begins(self, count: int = 1) -> None:
        """Count games that begin."""
        self._begun.inc(count)

    def turn(self, outcome: str, stop_reason: str | None = None) -> None:
        """Count a turn, and the game if it ended."""
        self._turns[outcome].inc()
        if stop_reason is not None:
            self._ended[stop_reason].inc()

    def refusal(self, reason: Reason) -> None:
        """Count a refusal."""
        self._refused[reason].inc()

    def answered(self, seconds: float) -> None:
        """Record how long an answer took."""
        self._seconds.observe(seconds)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)
