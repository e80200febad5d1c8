"""Open sessions of a server: capacity, in all and of one client, idle timeout, shutdown.

A session is a WebSocket with a function that answers its messages. This file does not know the messages.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from starlette.websockets import WebSocket, WebSocketDisconnect

from wordle_rl.serve.protocol import Reason, Refusal
from wordle_rl.serve.serve_settings import ServeSettings

logger = logging.getLogger(__name__)

_CLOSE_TIMEOUT_S = 5.0
_GOING_AWAY, _SERVICE_RESTART, _TRY_AGAIN_LATER = 1001, 1012, 1013

Answer = Callable[[str], Awaitable[str | None]]
"""Answers the text of a message; returns None to close the session."""


@dataclass(eq=False)
class Session:
    """One open connection."""

    socket: WebSocket
    task: asyncio.Task[object]
    busy: bool = False


class Sessions:
    """The open sessions of a server."""

    def __init__(self, settings: ServeSettings) -> None:
        self._settings = settings
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
        if (refused := self._no_session(socket)) is not None:
            await self._end(socket, *refused)
            return
        task = asyncio.current_task()
        assert task is not None
        self._open.add(session := Session(socket, task))
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

    async def _next_answer(self, session: Session, answer: Answer) -> bool:
        # Wait for a message and answer it; False if the session is over.
        async with asyncio.timeout(self._settings.idle_timeout_s):
            message = await session.socket.receive()
        if message["type"] != "websocket.receive":
            return False
        session.busy = True
        try:
            said = await answer(message.get("text") or "")
        except Refusal as refusal:
            said = refusal.as_text()
        except Exception:  # an error in one message must not end sessions; the log has the traceback
            logger.exception("a message could not be answered")
            said = Refusal(Reason.FAILED, "the server failed on this message; see its log").as_text()
        if said is None:
            await session.socket.close()
            return False
        await session.socket.send_text(said)
        session.busy = False
        return True

    def _no_session(self, socket: WebSocket) -> tuple[Refusal, int] | None:
        # The reason, and the code to close with, why a connection gets no session.
        if self.draining.is_set():
            return Refusal(Reason.SHUTTING_DOWN, "the server is stopping; try again later"), _SERVICE_RESTART
        settings, address = self._settings, _address(socket)
        of_client = sum(_address(session.socket) == address for session in self._open)
        for active, most, whose in (
            (len(self._open), settings.max_sessions, ""),
            (of_client, settings.max_client_sessions, " of your address"),
        ):
            if active >= most:
                said = f"all {most} sessions{whose} are taken; try again later"
                return Refusal(Reason.FULL, said, active_sessions=active, max_sessions=most), _TRY_AGAIN_LATER
        return None

    async def _end(self, socket: WebSocket, refusal: Refusal, code: int) -> None:
        # Send the reason and close the session. A peer that does not read is left to uvicorn after a while.
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


def _address(socket: WebSocket) -> str:
    return socket.client.host if socket.client is not None else ""
