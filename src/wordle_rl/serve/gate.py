"""`guard`: who may reach an application, by which name, and how large a request may be."""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
from urllib.parse import urlsplit

from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response
from pydantic import SecretStr
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from wordle_rl.serve.serve_settings import ServeSettings

OPEN_PATHS = ("/health", "/ready")
"""Paths without a token, for probes; they only tell whether the server is up."""
_PORTS = {"http": 80, "https": 443}


def guard(app: FastAPI, settings: ServeSettings) -> None:
    """Put a `Gate` before an application, as the settings have it."""
    names = ("localhost", settings.host, *settings.host_names)
    app.add_middleware(Gate, token=settings.token(), names=names, max_body_bytes=settings.max_message_bytes)


class Gate:
    """Refuse requests and WebSocket upgrades before the application sees them.

    The server must be called by an IP address or one of `names`. A site can point its own name to this machine, and its
    pages would then read what is served here (DNS rebinding); their requests carry that name. `*` allows any.

    WebSockets opened by a page of another site are refused too, since browsers allow them.

    With a token, a request needs `Authorization: Bearer TOKEN`, or `Basic` with the token as password, for which a
    browser prompts its user. Bodies are read here, up to `max_body_bytes`.
    """

    def __init__(self, app: ASGIApp, token: SecretStr | None, names: tuple[str, ...], max_body_bytes: int) -> None:
        self._app = app
        self._token = token.get_secret_value().encode() if token else None
        self._names = {name.lower() for name in names}
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        denied = self._denied(scope, headers)
        if scope["type"] == "websocket":
            if denied is None:
                await self._app(scope, receive, send)
            else:
                await WebSocket(scope, receive, send).send_denial_response(denied)
            return
        if denied is None and ("content-length" in headers or "transfer-encoding" in headers):
            body = await self._body(headers, receive)
            if body is None:
                denied = _refused(413, f"a request may have {self._max_body_bytes} bytes; send fewer")
            else:
                receive = _after(body, receive)
        await (denied or self._app)(scope, receive, send)

    async def _body(self, headers: Headers, receive: Receive) -> Message | None:
        # The body as one message, or the loss of its connection; None if it is too long.
        if int(headers.get("content-length", 0)) > self._max_body_bytes:
            return None
        body, more = bytearray(), True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return message
            body += message.get("body", b"")
            if len(body) > self._max_body_bytes:
                return None
            more = message.get("more_body", False)
        return {"type": "http.request", "body": bytes(body), "more_body": False}

    def _denied(self, scope: Scope, headers: Headers) -> Response | None:
        host = headers.get("host", "")
        if not self._is_ours(host):
            return _refused(400, "this server is not called by that name; see --host-names")
        # Browsers send the origin of the page that opens a WebSocket; programs send none.
        origin = headers.get("origin")
        if scope["type"] == "websocket" and origin is not None and not _is_same(origin, host):
            return _refused(403, "this WebSocket was opened by a page of another site")
        if self._token is None or scope["path"] in OPEN_PATHS or self._bears_token(headers):
            return None
        message = "this server needs a token; send Authorization: Bearer TOKEN"
        return _refused(401, message, {"WWW-Authenticate": 'Basic realm="wordle-rl", charset="UTF-8"'})

    def _is_ours(self, host: str) -> bool:
        place = _place(host, _PORTS["http"])
        return place is not None and (not self._names.isdisjoint((place[0], "*")) or _is_address(place[0]))

    def _bears_token(self, headers: Headers) -> bool:
        scheme, _, value = headers.get("authorization", "").partition(" ")
        given = value.strip().encode("latin-1")
        if scheme.lower() == "basic":
            try:
                given = base64.b64decode(given, validate=True).partition(b":")[2]
            except binascii.Error:
                return False
        elif scheme.lower() != "bearer":
            return False
        return hmac.compare_digest(given, self._token or b"")  # in constant time


def _after(first: Message, receive: Receive) -> Receive:
    # `receive`, with a message before all others.
    waiting = [first]

    async def received() -> Message:
        return waiting.pop() if waiting else await receive()

    return received


def _is_same(origin: str, host: str) -> bool:
    # Whether an origin, `scheme://host[:port]` and nothing else, is that of a page served under `host`.
    scheme, _, place = origin.partition("://")
    if scheme not in _PORTS or (found := _place(place, _PORTS[scheme])) is None:
        return False
    return found == _place(host, _PORTS[scheme])


def _is_address(host: str) -> bool:
    # Such a host is safe: no site has an address as its name.
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _place(text: str, default_port: int) -> tuple[str, int] | None:
    # Host and port of `host[:port]`; None for anything else.
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if not host or parts.netloc != text or "@" in text:
        return None
    return host, default_port if port is None else port


def _refused(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"message": message}, status, headers)
