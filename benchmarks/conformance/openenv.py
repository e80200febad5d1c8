"""An OpenEnv server as a target: one WebSocket per session, and its schema over HTTP."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import httpx
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from conformance.targets import Session, SessionLostError, Step, Target, TargetError, text_of

_LOST = (OSError, TimeoutError, WebSocketException)
_TIMEOUT_S = 30.0


class OpenEnvTarget(Target):
    """The server at a URL. Replies go into the only required string of the action's schema."""

    def __init__(self, url: str, token: str = "") -> None:
        if not url.startswith(("http://", "https://")):
            raise TargetError(f"{url!r} is no address; begin it with http:// or https://")
        self.name = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._field = self._field_of_action()

    def open(self, seed: int) -> Session:
        """Open a session and reset it."""
        try:
            return _OpenEnvSession(self.name, self._headers, self._field, seed)
        except (*_LOST, SessionLostError) as error:
            raise TargetError(f"{self.name} opens no session with seed {seed}: {error}") from None

    def _field_of_action(self) -> str:
        try:
            with httpx.Client(base_url=self.name, headers=self._headers, timeout=_TIMEOUT_S) as client:
                action = client.get("/schema").raise_for_status().json()["action"]
        except (httpx.HTTPError, httpx.InvalidURL, json.JSONDecodeError, KeyError, TypeError) as error:
            raise TargetError(f"{self.name} shows no OpenEnv schema ({error}); is a server there?") from None
        fields = action.get("properties", {})
        strings = [name for name in action.get("required", []) if fields.get(name, {}).get("type") == "string"]
        if len(strings) != 1:
            raise TargetError(f"the action of {self.name} has the required strings {strings}, not one for the reply")
        return str(strings[0])


class _OpenEnvSession(Session):
    def __init__(self, url: str, headers: dict[str, str], field: str, seed: int) -> None:
        address = url.replace("http", "ws", 1) + "/ws"
        self._field, self._held = field, contextlib.ExitStack()
        connection = connect(address, additional_headers=headers, open_timeout=_TIMEOUT_S, max_size=None)
        self._socket = self._held.enter_context(connection)
        self.opening = self._ask("reset", seed=seed)
        if self.opening.refused:
            self.close()
            raise SessionLostError(self.opening.text)

    def _ask(self, kind: str, **data: Any) -> Step:
        # An error message is a refusal. A broken connection is not; it raises.
        try:
            self._socket.send(json.dumps({"type": kind, "data": data}))
            raw = str(self._socket.recv(timeout=_TIMEOUT_S))
        except _LOST as error:
            raise SessionLostError(f"{type(error).__name__}: {error}") from None
        answer = json.loads(raw)
        found = answer.get("data") or {}
        if answer["type"] == "error":
            return Step(str(found.get("message")), raw=raw, refused=True)
        return Step(text_of(found.get("observation")), found.get("reward"), bool(found.get("done")), raw)

    def send(self, reply: str) -> Step:
        return self._ask("step", **{self._field: reply})

    def beside(self) -> str:
        return self._ask("state").raw

    def close(self) -> None:
        with contextlib.suppress(*_LOST):  # the connection may be gone already
            self._held.close()
