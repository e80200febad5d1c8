"""The server process: its socket, deadlines of requests, and a shutdown that finishes turns in progress."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import resource
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from wordle_rl.config.base import ConfigError
from wordle_rl.serve.serve_settings import ServeSettings

if TYPE_CHECKING:
    from starlette.applications import Starlette

BACKLOG = 4096
"""Connections that can wait to be accepted."""


class SessionServer(uvicorn.Server):
    """uvicorn, but it ends sessions before it closes their connections."""

    def __init__(
        self, config: uvicorn.Config, ready: Callable[[], None], drain: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        super().__init__(config)
        self._ready, self._drain = ready, drain

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then call `ready`."""
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish turns in progress, notify every session, then close all connections."""
        if self._drain is not None:
            await self._drain()
        await super().shutdown(sockets)


class TimedRequests(H11Protocol):
    """uvicorn's HTTP, but a request must arrive within `timeout_s` seconds of its connection or of its first bytes.

    uvicorn limits only the pause between two requests, so half a header would hold a connection for ever.
    """

    timeout_s: float
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Pass bytes on, then wait for the rest of the request, if there is any."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        super().connection_lost(exc)
        if self._deadline is not None:
            self._deadline.cancel()

    def _watch(self) -> None:
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):  # the request is complete
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.timeout_s, self._expire)

    def _expire(self) -> None:
        # A WebSocket's protocol has taken the place of this one; its handshake is the request that must be complete.
        protocol = self.transport.get_protocol()
        if not (isinstance(protocol, WebSocketsSansIOProtocol) and protocol.handshake_complete):
            self.transport.close()


def _without_traceback(record: logging.LogRecord) -> bool:
    # A frame that is no text is its client's fault, and one line; uvicorn adds where it found it.
    if str(record.msg).startswith("Invalid UTF-8"):
        record.exc_info = None
    return True


def listen(host: str, port: int, dead_after_s: float) -> socket.socket:
    """Open a listening socket; connections are dropped if a peer reads nothing for `dead_after_s` seconds."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise ConfigError(f"host {host!r} is not an address: {error.strerror or error}; give another") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError, AttributeError):  # only on Linux, and not in every sandbox
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(dead_after_s * 1000))
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(f"cannot listen on {host} port {port}: {error.strerror or error}; give another") from None
    listener.setblocking(False)
    return listener


def run_server(
    app: Starlette,
    settings: ServeSettings,
    say: Callable[[str], None],
    drain: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Serve until a signal stops the process.

    `say` gets the address once the server answers; `drain` ends the open sessions when it stops.
    """
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # macOS allows no unlimited number
        resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))  # each session takes one
    listener = listen(settings.host, settings.port, 2 * settings.ping_timeout_s)
    host, port = listener.getsockname()[:2]
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    # After a clean shutdown uvicorn raises the signal again. Ignore it, or SIGTERM would look like a crash.
    signal.signal(signal.SIGTERM, lambda *_: None)
    # The page's handlers run in threads, each of which may hold the interpreter this long: a turn waits for all.
    sys.setswitchinterval(0.0005)
    # Modules and word lists live until the end; keep the garbage collector from scanning them again and again.
    gc.collect()
    gc.freeze()
    server = SessionServer(configured(app, settings), lambda: say(address), drain)
    try:
        with contextlib.suppress(KeyboardInterrupt):  # uvicorn has shut down cleanly and passes it on
            server.run([listener])
    finally:
        listener.close()


def configured(app: Starlette, settings: ServeSettings) -> uvicorn.Config:
    """Return uvicorn's settings."""
    # No compression, which costs more time than a turn. Pings detect half-open connections.
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=type("Requests", (TimedRequests,), {"timeout_s": settings.request_timeout_s}),
        ws="websockets-sansio",
        ws_per_message_deflate=False,
        ws_max_size=settings.max_message_bytes,
        ws_ping_interval=settings.ping_timeout_s,
        ws_ping_timeout=settings.ping_timeout_s,
        timeout_graceful_shutdown=max(1, round(settings.shutdown_timeout_s)),
        log_level="warning",
        access_log=False,
        server_header=False,
    )
    logging.getLogger("uvicorn.error").addFilter(_without_traceback)
    return config
