"""Open sessions of a server: capacity, idle timeout, and shutdown.

A session is a WebSocket with a function that answers its messages. This file does not know the messages.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from wordle_rl.serve.metrics import Metrics
from wordle_rl.serve.protocol import Reason, Refusal
from wordle_rl.serve.serve_settings import ServeSettings

logger = logging.getLogger(__name__)

_SWEEPS_PER_TIMEOUT = 4
_LONGEST_SWEEP_S = 5.0
_CLOSE_TIMEOUT_S = 5.0
_SERVICE_RESTART, _TRY_AGAIN_LATER, _GOING_AWAY = 1012, 1013, 1001

Answer = Callable[[str], Awaitable[str | None]]
"""Answers the text of a message; returns None to close the session."""


@dataclass(eq=False)
class Session:
    """One open connection."""

    socket: WebSocket
    task: asyncio.Task[object]
    last_message: float = field(default_factory=time.monotonic)
    busy: bool = False
    is_cut: bool = False


class Sessions:
    """The open sessions of a server.

    Args:
        settings: Capacity and timeouts.
        metrics: Counts sessions and refusals.
        refuse: Encodes a refusal in the protocol.
    """

    def __init__(self, settings: ServeSettings, metrics: Metrics, refuse: Callable[[Refusal], str]) -> None:
        self._settings, self._metrics, self._refuse = settings, metrics, refuse
        self._open: set[Session] = set()
        self._sweeper: asyncio.Task[None] | None = None
        self.is_draining = False

    def __len__(self) -> int:
        return len(self._open)

    @property
    def is_full(self) -> bool:
        """True if no more sessions are accepted."""
        return len(self._open) >= self._settings.max_sessions

    async def serve(self, socket: WebSocket, answer: Answer, close: Callable[[], None]) -> None:
        """Answer the messages of a connection in order until it ends.

        Args:
            socket: The connection, not accepted yet.
            answer: Answers a message. If it raises a `Refusal`, that is sent and the session continues.
            close: Called once after the session.
        """
        await socket.accept()
        task = asyncio.current_task()
        assert task is not None
        session = Session(socket, task)
        if refusal := self._cannot_open():
            await self._end(session, refusal, _SERVICE_RESTART if self.is_draining else _TRY_AGAIN_LATER)
            close()
            return
        self._open.add(session)
        self._metrics.session_opens()
        try:
            while (text := await self._next_text(session)) is not None:
                if not await self._answer_one(session, text, answer):
                    break
            if socket.client_state is WebSocketState.CONNECTED and socket.application_state is WebSocketState.CONNECTED:
                await socket.close()
        except (WebSocketDisconnect, RuntimeError) as error:
            # Starlette raises RuntimeError for a socket that is already closed.
            logger.debug("connection lost: %s", type(error).__name__)
        except asyncio.CancelledError:
            if not session.is_cut:
                raise
        finally:
            self._open.discard(session)
            self._metrics.session_closes()
            close()

    def _cannot_open(self) -> Refusal | None:
        if self.is_draining:
            return Refusal(Reason.SHUTTING_DOWN, "the server is stopping; try again later")
        if self.is_full:
            most = self._settings.max_sessions
            return Refusal(
                Reason.FULL,
                f"all {most} sessions are taken; try again later",
                active_sessions=len(self._open),
                max_sessions=most,
            )
        return None

    async def _next_text(self, session: Session) -> str | None:
        message = await session.socket.receive()
        if message["type"] != "websocket.receive":
            return None
        session.last_message = time.monotonic()
        session.busy = True
        text = message.get("text")
        return text if text is not None else ""

    async def _answer_one(self, session: Session, text: str, answer: Answer) -> bool:
        # False if the session must end.
        try:
            said = await answer(text)
        except Refusal as refusal:
            self._metrics.refusal(refusal.reason)
            said = self._refuse(refusal)
        except Exception:  # an error in one message must not end sessions; the log has the traceback
            logger.exception("a message could not be answered")
            self._metrics.refusal(Reason.FAILED)
            said = self._refuse(Refusal(Reason.FAILED, "the server failed on this message; see its log"))
        if said is not None:
            await session.socket.send_text(said)
            self._metrics.answered(time.monotonic() - session.last_message)
        session.busy = False
        return said is not None

    async def _end(self, session: Session, refusal: Refusal, code: int) -> None:
        # Send the reason and close the session; cut it off if the peer does not read.
        self._metrics.refusal(refusal.reason)
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await session.socket.send_text(self._refuse(refusal))
                await session.socket.close(code, refusal.reason.value)
        except TimeoutError:
            session.is_cut = True
            session.task.cancel()
        except (WebSocketDisconnect, RuntimeError) as error:
            logger.debug("connection lost while it was closed: %s", type(error).__name__)

    # --- idle sessions, and the end of all ---------------------------------------------------------------------

    def start(self) -> None:
        """Start looking for idle sessions; needs a running event loop."""
        self._sweeper = asyncio.create_task(self._sweep())

    async def stop(self) -> None:
        """Stop looking for idle sessions."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)

    async def _sweep(self) -> None:
        timeout = self._settings.idle_timeout_s
        while True:
            await asyncio.sleep(min(timeout / _SWEEPS_PER_TIMEOUT, _LONGEST_SWEEP_S))
            oldest = time.monotonic() - timeout
            refusal = Refusal(Reason.IDLE, f"no message for {timeout:g} seconds; open another session")
            idle = [session for session in self._open if session.last_message < oldest]
            await asyncio.gather(*(self._end(session, refusal, _GOING_AWAY) for session in idle))

    async def drain(self) -> None:
        """Accept no more sessions, let turns in progress finish, then end all sessions."""
        self.is_draining = True
        deadline = time.monotonic() + self._settings.shutdown_timeout_s
        while any(session.busy for session in self._open) and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        refusal = Refusal(Reason.SHUTTING_DOWN, "the server is stopping; connect again later")
        await asyncio.gather(*(self._end(session, refusal, _SERVICE_RESTART) for session in list(self._open)))
