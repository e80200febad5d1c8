"""`create_app`: the application of `wordle-rl serve`, with its access control."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from openenv.core.env_server.http_server import HTTPEnvServer
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from pydantic import SecretStr
from starlette.datastructures import Headers
from starlette.routing import WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from wordle_rl.prompt import Shape, Style, Thinking
from wordle_rl.serve.batch_protocol import BatchProtocol
from wordle_rl.serve.environment import NAME, WordleEnvironment
from wordle_rl.serve.metrics import Metrics
from wordle_rl.serve.openenv_client import WordleAction, WordleObservation, WordleState
from wordle_rl.serve.protocol import EnvironmentProtocol, Refusal, refused
from wordle_rl.serve.serve_settings import ServeSettings
from wordle_rl.serve.sessions import Sessions
from wordle_rl.serve.tasks import ServedGames
from wordle_rl.serve.textarena import (
    Reading,
    TextArenaAction,
    TextArenaEnvironment,
    TextArenaObservation,
    TextArenaState,
)
from wordle_rl.serve.watch.watch_app import create_watch_app, to_page

API_VERSION = "1.0.0"
"""Version of OpenEnv's HTTP interface that the routes implement."""


@dataclass(frozen=True)
class Service:
    """What the routes of a server share; `app.state.service`."""

    settings: ServeSettings
    games: ServedGames
    metrics: Metrics
    sessions: Sessions

    @classmethod
    def of(cls, settings: ServeSettings) -> Service:
        """Load word lists and keys.

        Raises:
            WordListError: If a word list is missing or wrong.
            ConfigError: If a variable that holds a key is not set.
        """
        metrics = Metrics()
        return cls(settings, ServedGames(settings), metrics, Sessions(settings, metrics, refused))

    def environment(self) -> WordleEnvironment:
        """Create an environment."""
        return WordleEnvironment(self.games, self.metrics)


def create_app(settings: ServeSettings) -> FastAPI:
    """Create the application: OpenEnv's routes, health, readiness and metrics, and the page, to which `/` redirects.

    Raises:
        WordListError: If a word list is missing or wrong.
        ConfigError: If a variable that holds a token or a key is not set.
    """
    service = Service.of(settings)
    app = FastAPI(
        title="wordle-rl",
        version=API_VERSION,
        description="Wordle as an OpenEnv environment.",
        lifespan=partial(_lifespan, service),
    )
    app.state.service = service
    app.add_middleware(Gate, token=settings.token())
    app.add_exception_handler(Refusal, _refused)
    make = partial(WordleEnvironment, service.games, service.metrics)
    add_openenv_routes(app, make, WordleAction, WordleObservation, WordleState, NAME)
    _add_own_routes(app, service)
    textarena = create_textarena_app(service)
    textarena.add_exception_handler(Refusal, _refused)
    app.mount("/textarena", textarena)
    app.mount("/watch", create_watch_app(settings))
    app.add_route("/", to_page, include_in_schema=False)
    return app


@asynccontextmanager
async def _lifespan(service: Service, _app: FastAPI) -> AsyncIterator[None]:
    service.sessions.start()
    try:
        yield
    finally:
        await service.sessions.stop()
        service.games.close()


def _add_own_routes(app: FastAPI, service: Service) -> None:
    @app.websocket("/ws")
    async def play(socket: WebSocket) -> None:
        """OpenEnv's session."""
        environment = service.environment()
        protocol = EnvironmentProtocol(environment, WordleAction)
        await service.sessions.serve(socket, protocol.answer, environment.close)

    @app.websocket("/batch")
    async def play_many(socket: WebSocket) -> None:
        """Many games in one session."""
        protocol = BatchProtocol(service.games, service.metrics)
        await service.sessions.serve(socket, protocol.answer, protocol.close)

    @app.get("/ready", tags=["Health"])
    async def ready() -> JSONResponse:
        """Readiness: 200 while a session is free, otherwise 503."""
        sessions = service.sessions
        state = "stopping" if sessions.is_draining else "full" if sessions.is_full else "ready"
        return JSONResponse({"status": state}, 200 if state == "ready" else 503)

    @app.get("/metrics", tags=["Health"])
    async def metrics() -> Response:
        """Metrics for Prometheus."""
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


async def _refused(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refusal)
    return JSONResponse({"detail": error.as_json()}, error.status)


def add_openenv_routes(
    app: FastAPI,
    make: Callable[[], Environment[Any, Any, Any]],
    action: type[Action],
    observation: type[Observation],
    state: type[State],
    name: str,
) -> None:
    """Add OpenEnv's HTTP routes without its WebSockets.

    Args:
        app: An application without WebSockets.
        make: Creates an environment; openenv needs a class or a `partial`.
        action: Type of its actions.
        observation: Type of its observations.
        state: Type of its state.
        name: Name of the environment in the routes.
    """
    # OpenEnv's WebSockets have no idle timeout, and an error ends the session; ours replace them. Its `/mcp` opens
    # sessions over HTTP, which are useless without tools, so allow only one.
    server = HTTPEnvServer(make, action, observation, max_concurrent_envs=1, env_name=name, state_cls=state)
    server.register_routes(app)
    app.router.routes[:] = [route for route in app.router.routes if not isinstance(route, WebSocketRoute)]


def create_textarena_app(service: Service) -> FastAPI:
    """Create the application to mount. It shares sessions, rules and words with the server, but not the wording."""
    settings = in_textarena_words(service.settings)
    games = service.games.with_settings(settings)
    make = partial(TextArenaEnvironment, games, service.metrics, Reading(settings.textarena_reading))
    app = FastAPI(title="wordle-rl: TextArena", description="Wordle-v0 in the words of TextArena.")
    add_openenv_routes(app, make, TextArenaAction, TextArenaObservation, TextArenaState, "textarena")

    @app.websocket("/ws")
    async def play(socket: WebSocket) -> None:
        """OpenEnv's session."""
        environment = make()
        protocol = EnvironmentProtocol(environment, TextArenaAction)
        await service.sessions.serve(socket, protocol.answer, environment.close)

    return app


def in_textarena_words(settings: ServeSettings) -> ServeSettings:
    """Return settings with TextArena's wording: bracketed guesses and optional thinking."""
    wording = {
        "style": Style.TEXTARENA,
        "shape": Shape.TRANSCRIPT,
        "thinking": Thinking.OPTIONAL,
        "system_prompt": None,
    }
    return settings.model_copy(update={"game": settings.game.model_copy(update=wording)})


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
