"""An OpenEnv server as a target: one WebSocket per session, through openenv's own generic client."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx
from openenv.core.client_types import StepResult
from openenv.core.generic_client import GenericEnvClient
from websockets.exceptions import WebSocketException

from wordle_rl.conformance.adapters.module import as_sent, text_of
from wordle_rl.conformance.target import SessionLostError, Step, TargetError

_PAGES = ("/metadata", "/schema", "/openapi.json")
_MAX_TASKS = 200
_LOST = (ConnectionError, TimeoutError, WebSocketException)
_TIMEOUT_S = 30.0


class _WholePayloadClient(GenericEnvClient):
    """The generic client, which also keeps everything a reply held."""

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[dict[str, Any]]:
        result = super()._parse_result(payload)
        result.metadata = payload
        return result


class OpenEnvTarget:
    """A server at an address.

    Args:
        url: Address of its root, e.g. `http://127.0.0.1:8000`.
        split: Part whose tasks are opened by index; None: games are opened by seed.
        token: Bearer token; '' for none.
        action_field: Field of the action that takes the reply; '' reads it from the server's schema.

    Raises:
        TargetError: If there is no such server, or its action is not one plain string.
    """

    def __init__(self, url: str, *, split: str | None = None, token: str = "", action_field: str = "") -> None:
        if urlsplit(url).scheme not in ("http", "https", "ws", "wss"):
            raise TargetError(f"{url!r} is no address; begin it with http:// or https://")
        self._url = url.rstrip("/")
        self._http = self._url.replace("ws", "http", 1) if self._url.startswith("ws") else self._url
        self._split = split
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._field = action_field or self._field_of_action()

    @property
    def name(self) -> str:
        """The address."""
        return self._url

    def open(self, seed: int) -> OpenEnvSession:
        """Connect and reset."""
        client = _WholePayloadClient(self._url, message_timeout_s=_TIMEOUT_S, headers=self._headers).sync()
        options = {"seed": seed} if self._split is None else {"split": self._split, "index": seed}
        try:
            opening = client.reset(**options)
        except (*_LOST, RuntimeError) as error:
            client.close()
            raise TargetError(f"{self._url} opens no session with {options}: {error}") from None
        return OpenEnvSession(client, self._field, opening)

    def surroundings(self) -> str:
        """Metadata, schemas and the tasks listed over HTTP, at most `_MAX_TASKS` of each split."""
        try:
            with httpx.Client(base_url=self._http, headers=self._headers, timeout=_TIMEOUT_S) as client:
                return "\n".join(_pages_of(client))
        except httpx.HTTPError as error:
            raise TargetError(f"{self._url} stopped answering over HTTP: {error}") from None

    def _field_of_action(self) -> str:
        """The one required string of the action."""
        try:
            answer = httpx.get(f"{self._http}/schema", headers=self._headers, timeout=_TIMEOUT_S)
            answer.raise_for_status()
            action = answer.json()["action"]
        except (httpx.HTTPError, json.JSONDecodeError, KeyError, TypeError) as error:
            raise TargetError(f"{self._url} shows no OpenEnv schema ({error}); is a server there?") from None
        fields = action.get("properties", {})
        strings = [name for name in action.get("required", []) if fields.get(name, {}).get("type") == "string"]
        if len(strings) != 1:
            raise TargetError(f"the action of {self._url} has the required strings {strings}; give --action-field")
        return str(strings[0])


class OpenEnvSession:
    """One connection."""

    def __init__(self, client: Any, field: str, opening: StepResult[dict[str, Any]]) -> None:
        self._client, self._field = client, field
        self._opening = _step(opening)

    @property
    def opening(self) -> Step:
        """The observation of the reset."""
        return self._opening

    def send(self, reply: str) -> Step:
        """Step. An error message of the server is a refusal; a connection that breaks is none."""
        try:
            return _step(self._client.step({self._field: reply}))
        except _LOST as error:
            raise SessionLostError(f"{type(error).__name__}: {error}") from None
        except RuntimeError as error:  # the client's only word for an error message of the server
            return Step(str(error), raw=str(error), refused=True)

    def beside(self) -> str:
        """The server's `state`."""
        try:
            return as_sent(self._client.state())
        except _LOST as error:
            raise SessionLostError(f"{type(error).__name__}: {error}") from None
        except RuntimeError as error:
            return str(error)

    def close(self) -> None:
        """Disconnect; a connection that is already gone is closed."""
        with contextlib.suppress(*_LOST):
            self._client.close()


def _step(result: StepResult[dict[str, Any]]) -> Step:
    observation = result.observation if isinstance(result.observation, Mapping) else {}
    return Step(text_of(observation), result.reward, bool(result.done), as_sent(result.metadata))


def _pages_of(client: httpx.Client) -> list[str]:
    pages = [client.get(page).text for page in _PAGES]
    for env in _values(client.get("/list_environments")):
        splits = client.get(f"/{env}/splits")
        pages.append(splits.text)
        for split in _values(splits):
            asked = {"split": split.get("name") if isinstance(split, Mapping) else split}
            pages.append(client.post(f"/{env}/task_range", json=asked | {"start": 0, "stop": _MAX_TASKS}).text)
    return pages


def _values(answer: httpx.Response) -> list[Any]:
    """The values of a JSON list; none if the server has no such route."""
    try:
        values = answer.json() if answer.is_success else []
    except json.JSONDecodeError:
        return []
    return values if isinstance(values, list) else []
