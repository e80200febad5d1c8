"""The gate of the server: a token that every request bears, and no pages of other sites."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
from urllib.parse import urlsplit

from pydantic import SecretStr
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

OPEN_PATHS = ("/health", "/ready")
"""Paths that need no token, since probes have none; they say nothing but whether the server is up."""


class Gate:
    """Refuses requests and WebSocket upgrades before the application sees them.

    With a token, a request needs `Authorization: Bearer TOKEN`, or, which is what a browser asks its user for, `Basic`
    with the token as password. With or without one, a WebSocket that a page of another site opens is refused, since
    browsers let any page do so.

    Args:
        app: The application.
        token: The token; None: none is asked for.
    """

    def __init__(self, app: ASGIApp, token: SecretStr | None) -> None:
        self._app = app
        self._token = token.get_secret_value().encode() if token else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if scope["type"] == "websocket" and not _same_site(headers):
            await _deny(scope, send, 403, "this WebSocket was opened by a page of another site")
        elif self._token is not None and scope["path"] not in OPEN_PATHS and not self._bears_token(headers):
            await _deny(scope, send, 401, "this server asks for a token: Authorization: Bearer TOKEN")
        else:
            await self._app(scope, receive, send)

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
        return hmac.compare_digest(given, self._token or b"")


def _same_site(headers: Headers) -> bool:
    """True unless a browser says that the page comes from another host; programs send no origin."""
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc == headers.get("host")


async def _deny(scope: Scope, send: Send, status: int, message: str) -> None:
    """Answer with a status, before an upgrade as well."""
    body = json.dumps({"message": message}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b'Basic realm="wordle-rl", charset="UTF-8"'))
    kind = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
    await send({"type": f"{kind}.start", "status": status, "headers": headers})
    await send({"type": f"{kind}.body", "body": body})
