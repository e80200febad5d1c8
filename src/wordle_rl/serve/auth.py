"""Access control of the server: a token for every request, and no WebSockets from pages of other sites."""

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
"""Paths without a token, for probes; they only tell whether the server is up."""


class Gate:
    """Refuse requests and WebSocket upgrades before the application sees them.

    With a token, a request needs `Authorization: Bearer TOKEN`, or `Basic` with the token as password, for which a
    browser prompts its user. WebSockets opened by a page of another site are always refused, since browsers allow them.

    Args:
        app: The application.
        token: The token. None: none is needed.
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
            await _deny(scope, send, 401, "this server needs a token; send Authorization: Bearer TOKEN")
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
        return hmac.compare_digest(given, self._token or b"")  # in constant time


def _same_site(headers: Headers) -> bool:
    # Browsers send the origin of the page; programs send none.
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc == headers.get("host")


async def _deny(scope: Scope, send: Send, status: int, message: str) -> None:
    # Works before a WebSocket upgrade as well, where a normal response is not possible.
    body = json.dumps({"message": message}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b'Basic realm="wordle-rl", charset="UTF-8"'))
    kind = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
    await send({"type": f"{kind}.start", "status": status, "headers": headers})
    await send({"type": f"{kind}.body", "body": body})
