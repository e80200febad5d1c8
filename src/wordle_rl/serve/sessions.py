"""Open sessions of a server: capacity, idle timeout, shutdown, and what Prometheus is told of them.

A session is a WebSocket with a function that answers its messages. This file does not know the messages.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from starlette.websockets import WebSocket, WebSocketDisconnect

from wordle_rl.env import StopReason, WordleEnv
from wordle_rl.game import Outcome
from wordle_rl.serve.protocol import Reason, Refusal
from wordle_rl.serve.serve_settings import ServeSettings

logger = logging.getLogger(__name__)

_CLOSE_TIMEOUT_S = 5.0
_GOING_AWAY, _SERVICE_RESTART, _TRY_AGAIN_LATER = 1001, 1012, 1013
_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)

Answer = Callable[[str], Awaitable[str | None]]
"""Answers the text of a message; returns None to close the session."""


class Metrics:
    """Counters in a registry of the server's own, so that two in one process count separately. None names a word."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.sessions_open = Gauge("wordle_sessions_open", "Open sessions.", registry=registry)
        self.sessions = Counter("wordle_sessions", "Sessions opened.", registry=registry)
        self.games_begun = Counter("wordle_games_begun", "Games begun.", registry=registry)
        self.games_ended = Counter("wordle_games_ended", "Games ended.", ["stop_reason"], registry=registry)
        self.turns = Counter("wordle_turns", "Turns played.", ["outcome"], registry=registry)
        self.refusals = Counter("wordle_refusals", "Requests refused.", ["reason"], registry=registry)
        self.message_seconds = Histogram(
            "wordle_message_seconds", "Time from a message to its answer.", registry=registry, buckets=_SECONDS
        )
        # Name every kind at once: a rate needs a 0 before the first event.
        for counter, kinds in ((self.games_ended, StopReason), (self.turns, Outcome), (self.refusals, Reason)):
            for kind in kinds:
                counter.labels(kind.value)

    def turn(self, env: WordleEnv) -> None:
        """Count the turn just played, and the game if it ended."""
        self.turns.labels(env.turns[-1].outcome.value).inc()
        if env.stop_reason is not None:
            self.games_ended.labels(env.stop_reason.value).inc()

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)


@dataclass(eq=False)
class Session:
    """One open connection."""

    socket: WebSocket
    task: asyncio.Task[object]
    busy: bool = False


class Sessions:
    """The open sessions of a server."""

    def __init__(self, settings: ServeSettings, metrics: Metrics) -> None:
        self._settings, self._metrics = settings, metrics
        self._open: set[Session] = set()
        self.draining = asyncio.Event()

    def __len__(self) -> int:
        return len(self._open)

    @property
    def is_full(self) -> bool:
        """True if no more sessions are accepted."""
        return len(self._open) >= self._settings.max_sessions

    async def serve(self, socket: WebSocket, answer: Answer) -> None:
        """Answer the messages of a connection in order until it ends. After a `Refusal` the session continues."""
        await socket.accept()
        if self.draining.is_set() or self.is_full:
            await self._refuse_session(socket)
            return
        task = asyncio.current_task()
        assert task is not None
        self._open.add(session := Session(socket, task))
        self._metrics.sessions_open.inc()
        self._metrics.sessions.inc()
        try:
            while await self._next_answer(session, answer):
                pass
        except TimeoutError:
            seconds = self._settings.idle_timeout_s
            refusal = Refusal(Reason.IDLE, f"no message for {seconds:g} seconds; open another session")
            await self._end(socket, refusal, _GOING_AWAY)
        except (WebSocketDisconnect, RuntimeError) as error:
            # Starlette raises RuntimeError for a socket that is already closed.
            logger.debug("connection lost: %s", type(error).__name__)
        except asyncio.CancelledError:
            if not self.draining.is_set():
                raise
            refusal = Refusal(Reason.SHUTTING_DOWN, "the server is stopping; connect again later")
            await self._end(socket, refusal, _SERVICE_RESTART)
        finally:
            self._open.discard(session)
            self._metrics.sessions_open.dec()

    async def _next_answer(self, session: Session, answer: Answer) -> bool:
        # Wait for a message and answer it; False if the session is over.
        async with asyncio.timeout(self._settings.idle_timeout_s):
            message = await session.socket.receive()
        if message["type"] != "websocket.receive":
            return False
        begun, session.busy = time.monotonic(), True
        try:
            said = await answer(message.get("text") or "")
        except Refusal as refusal:
            self._metrics.refusals.labels(refusal.reason.value).inc()
            said = refusal.as_text()
        except Exception:  # an error in one message must not end sessions; the log has the traceback
            logger.exception("a message could not be answered")
            self._metrics.refusals.labels(Reason.FAILED.value).inc()
            said = Refusal(Reason.FAILED, "the server failed on this message; see its log").as_text()
        if said is None:
            await session.socket.close()
            return False
        await session.socket.send_text(said)
        self._metrics.message_seconds.observe(time.monotonic() - begun)
        session.busy = False
        return True

    async def _refuse_session(self, socket: WebSocket) -> None:
        if self.draining.is_set():
            refusal = Refusal(Reason.SHUTTING_DOWN, "the server is stopping; try again later")
            await self._end(socket, refusal, _SERVICE_RESTART)
            return
        most = self._settings.max_sessions
        taken = {"active_sessions": len(self._open), "max_sessions": most}
        refusal = Refusal(Reason.FULL, f"all {most} sessions are taken; try again later", **taken)
        await self._end(socket, refusal, _TRY_AGAIN_LATER)

    async def _end(self, socket: WebSocket, refusal: Refusal, code: int) -> None:
        # Send the reason and close the session. A peer that does not read is left to uvicorn after a while.
        self._metrics.refusals.labels(refusal.reason.value).inc()
        with suppress(TimeoutError, WebSocketDisconnect, RuntimeError):
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await socket.send_text(refusal.as_text())
                await socket.close(code, refusal.reason.value)

    async def drain(self) -> None:
        """Accept no more sessions, let turns in progress finish, then end all sessions."""
        self.draining.set()
        deadline = time.monotonic() + self._settings.shutdown_timeout_s
        while any(session.busy for session in self._open) and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        # A session ends itself, so only one task writes to its socket.
        if tasks := [session.task for session in self._open]:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=_CLOSE_TIMEOUT_S + 1)
